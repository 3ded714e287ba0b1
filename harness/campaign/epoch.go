package campaign

// Epochs have 4, 8, 16, ... ranges, and then 256 each: what is found early is
// built upon soon, and later nobody waits for the last range of an epoch often.
const (
	firstEpoch   = 4
	longestEpoch = 256
	growing      = 6 // epochs that are shorter than the longest
)

// EpochRanges returns the ranges of an epoch: from first to, but without, end.
func EpochRanges(epoch uint64) (first, end uint64) {
	if epoch < growing {
		return firstEpoch * (1<<epoch - 1), firstEpoch * (1<<(epoch+1) - 1)
	}
	first = firstEpoch*(1<<growing-1) + (epoch-growing)*longestEpoch
	return first, first + longestEpoch
}

// EpochOf returns the epoch that a range belongs to.
func EpochOf(r uint64) (epoch uint64) {
	for epoch < growing {
		if _, end := EpochRanges(epoch); r < end {
			return epoch
		}
		epoch++
	}
	return growing + (r-firstEpoch*(1<<growing-1))/longestEpoch
}
