// Package cluster does a campaign ([campaign]) on many machines that share a
// NATS JetStream server, or a cluster of them.
//
// Everything a campaign knows is in streams. A [Coordinator] hands out the ranges
// of the open epoch and merges what comes back, in the order of the ranges; a
// [Worker] does ranges and makes findings smaller. Either may die at any moment
// and be started again, on another machine as well, and there may be any number
// of both: what they do is the same whoever does it, and what is written once is
// never written again.
//
//	stream kjit_NAME_STATE     kjit.NAME.config      the [Spec], once
//	                           kjit.NAME.epoch.E     the state that epoch E starts from, once
//	stream kjit_NAME_WORK      kjit.NAME.work.range.R, kjit.NAME.work.shrink.KEY
//	                                                 a work queue; gone when they are done
//	stream kjit_NAME_RESULTS   kjit.NAME.result.E.R  what came of range R of epoch E, once
//	stream kjit_NAME_BLOBS     kjit.NAME.blob.E.SUM.N
//	                                                 the parts of what is too long for a message
//	bucket kjit_NAME_FINDINGS  KEY                   a finding, and its smallest reproducer so far
//	bucket kjit_NAME_WORKERS   ID                    what a worker is and does; gone when it is dead
//	bucket kjit_NAME_CONTROL   control, summary, poison.R
//
// "Once" is kept by the server: the streams refuse a second message of a subject.
//
// Nothing that comes from the network is trusted to be what it should: it is
// bounded before it is read, checked after, and what is junk is deleted, counted
// and made again. Who may write into the streams can still lie about results;
// that is for the server's accounts and TLS.
package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/kjit-project/kjit/harness/judge"
)

// DefaultName is the name of a campaign that was given none.
const DefaultName = "main"

// Names are those of a campaign's streams, buckets and subjects.
type Names struct{ Campaign string }

// Validate returns what is wrong with the campaign's name.
func (n Names) Validate() error {
	if !isWord(n.Campaign, 32, "-") {
		return fmt.Errorf("campaign %q: want 1 to 32 letters, digits and hyphens", n.Campaign)
	}
	return nil
}

// isWord reports whether a text is 1 to most letters, digits and others.
func isWord(text string, most int, others string) bool {
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool {
		return !isAlphanumeric(r) && !strings.ContainsRune(others, r)
	})
}

func isAlphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// The streams and buckets.
const (
	stateStream   = "STATE"
	workStream    = "WORK"
	resultStream  = "RESULTS"
	blobStream    = "BLOBS"
	findingBucket = "FINDINGS"
	workerBucket  = "WORKERS"
	controlBucket = "CONTROL"
)

// workConsumer is the one consumer of the work queue, which all workers share.
const workConsumer = "workers"

func (n Names) stream(which string) string { return "kjit_" + n.Campaign + "_" + which }

// subject joins the words behind the campaign's name.
func (n Names) subject(words ...any) string {
	var b strings.Builder
	b.WriteString("kjit." + n.Campaign)
	for _, w := range words {
		fmt.Fprintf(&b, ".%v", w)
	}
	return b.String()
}

func (n Names) config() string                { return n.subject("config") }
func (n Names) epoch(e uint64) string         { return n.subject("epoch", e) }
func (n Names) result(epoch, r uint64) string { return n.subject("result", epoch, r) }
func (n Names) rangeWork(r uint64) string     { return n.subject("work", "range", r) }
func (n Names) shrinkWork(key string) string  { return n.subject("work", "shrink", key) }
func (n Names) blob(epoch uint64, sum string, part int) string {
	return n.subject("blob", epoch, sum, part)
}

// words returns what is behind "kjit.NAME.FIRST." in a subject.
func (n Names) words(subject, first string) ([]string, bool) {
	rest, ok := strings.CutPrefix(subject, n.subject(first)+".")
	return strings.Split(rest, "."), ok
}

// parseResult is the inverse of result.
func (n Names) parseResult(subject string) (epoch, r uint64, ok bool) {
	words, ok := n.words(subject, "result")
	if !ok || len(words) != 2 {
		return 0, 0, false
	}
	epoch, ok1 := number(words[0])
	r, ok2 := number(words[1])
	return epoch, r, ok1 && ok2
}

// parseEpoch is the inverse of epoch.
func (n Names) parseEpoch(subject string) (uint64, bool) {
	words, ok := n.words(subject, "epoch")
	if !ok || len(words) != 1 {
		return 0, false
	}
	return number(words[0])
}

// maxNumber bounds ranges and epochs, so that no sum of them overflows.
const maxNumber = 1 << 48

// number reads a number as subjects have it: in one way only.
func number(word string) (uint64, bool) {
	n, err := strconv.ParseUint(word, 10, 64)
	return n, err == nil && n <= maxNumber && strconv.FormatUint(n, 10) == word
}

// keyOf is the key of a signature: names of external JITs have any letters.
func keyOf(sig judge.Signature) string {
	sum := sha256.Sum256([]byte(sig.Runner + "\x00" + sig.Rule + "\x00" + string(sig.Kind)))
	return hex.EncodeToString(sum[:16])
}

// isKey reports whether a text can be what keyOf returns.
func isKey(text string) bool { return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == "" }
