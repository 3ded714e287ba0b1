package kernelabi

// columnsARM are the fields of rowsARM. A 0 in a row is a field that nobody
// measured; no field that code reads is at the start of its struct.
var columnsARM = [...]string{
	SkbDev, SkbLen, SkbDataLen, SkbProtocol, SkbPktType, SkbRxhash, SkbVlanTCI, SkbQueue, SkbMark, SkbHead, SkbData,
	DevIfindex, DevType, ThreadInfoCPU,
}

// rowsARM are layouts of 32-bit ARM kernels, computed by compiling the struct
// text of the releases. "full" is with XFRM, conntrack, bridge netfilter,
// traffic control, class actions, ndisc and secmark.
var rowsARM = map[string][len(columnsARM)]int{
	"arm-3.6-full":     {20, 80, 84, 102, 0, 120, 124, 130, 140, 164, 168, 0, 0, 20},
	"arm-3.6-minimal":  {20, 76, 80, 98, 0, 108, 112, 114, 120, 0, 148, 0, 0, 20},
	"arm-3.10-full":    {20, 80, 84, 102, 0, 120, 126, 132, 140, 176, 180, 120, 0, 20},
	"arm-3.12-full":    {20, 80, 84, 102, 0, 120, 126, 132, 140, 168, 172, 136, 0, 20},
	"arm-3.12-minimal": {20, 76, 80, 98, 0, 0, 114, 116, 120, 0, 152, 136, 0, 20},
	"arm-4.4-full":     {20, 92, 96, 152, 108, 128, 134, 104, 140, 168, 172, 184, 324, 16},
	"arm-4.4-minimal":  {20, 80, 84, 132, 96, 112, 118, 92, 120, 0, 152, 184, 324, 16},
}

// layoutsARM are the layouts of rowsARM by name.
var layoutsARM = func() map[string]Layout {
	layouts := make(map[string]Layout, len(rowsARM))
	for name, row := range rowsARM {
		layout := Layout{}
		for column, field := range columnsARM {
			if row[column] != 0 {
				layout[field] = row[column]
			}
		}
		layouts[name] = layout
	}
	return layouts
}()

// ARM312Full and ARM44Full are the layouts of the built-in ARM profiles, Linux
// 3.12 and the 4.5 level.
var (
	ARM312Full = layoutsARM["arm-3.12-full"]
	ARM44Full  = layoutsARM["arm-4.4-full"]
)
