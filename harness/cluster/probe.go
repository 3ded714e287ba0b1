package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/kjit-project/kjit/harness/campaign"
)

// probeSize is how many programs a probe has.
const probeSize = 16

// Probe returns what Spec.Probe has for a campaign in this process.
func Probe(ctx context.Context, cfg *campaign.Config) (string, error) {
	s := cfg.Settings
	s.Size = probeSize
	tiny, err := campaign.NewConfig(s, cfg.Targets...)
	if err != nil {
		return "", err
	}
	w, err := tiny.NewWorker()
	if err != nil {
		return "", err
	}
	defer w.Close()
	r, err := w.RunRange(ctx, campaign.NewState(&tiny.Settings).Frozen(), 0)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// NewSpec returns the spec of a campaign.
func NewSpec(ctx context.Context, cfg *campaign.Config) (Spec, error) {
	probe, err := Probe(ctx, cfg)
	return Spec{cfg.Settings, probe}, err
}
