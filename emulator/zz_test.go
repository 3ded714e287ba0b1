package emulator
import ("os";"testing";"golang.org/x/sys/unix";"fmt";"github.com/kjit-project/kjit/kernelabi")
func cpuNow() int64 { var ts unix.Timespec; unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID,&ts); return ts.Nano() }
func TestZZ(t *testing.T){
 inputs := postingPackets(1000)
 m := postingMachine(t)
 img := &kernelabi.Image{Code: unhex(postingImage), Base: 0xffffffffa00b5000}
 if os.Getenv("RET")!="" {img.Code=[]byte{0xc3}}
 m.Load(img)
 var res []Result
 best:=1e18
 for r:=0;r<60;r++{ s:=cpuNow(); for q:=0;q<50;q++{ res,_=m.Run(inputs,res)}; if d:=float64(cpuNow()-s)/50000; d<best {best=d}}
 fmt.Printf("warm %.1f ns cpu/packet\n",best)
 best=1e18
 for r:=0;r<40;r++{ s:=cpuNow(); for q:=0;q<50;q++{ for i:=0;i<1000;i+=64 {m.fill(inputs[i:])}}; if d:=float64(cpuNow()-s)/50000; d<best {best=d}}
 fmt.Printf("fill %.1f\n",best)
 m.fill(inputs)
 best=1e18
 res=res[:64]
 for r:=0;r<40;r++{ s:=cpuNow(); for q:=0;q<800;q++{ m.window(res)}; if d:=float64(cpuNow()-s)/800/64; d<best {best=d}}
 fmt.Printf("window %.1f\n",best)
 best=1e18
 for r:=0;r<40;r++{ s:=cpuNow(); for q:=0;q<800;q++{ m.window(res[:1])}; if d:=float64(cpuNow()-s)/800; d<best {best=d}}
 fmt.Printf("window of 1 %.1f\n",best)
}
