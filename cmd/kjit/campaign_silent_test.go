package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Commands do not wait for ever for a server that has no JetStream.
func TestCampaignWithoutJetStream(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as the commands do: ten seconds")
	}
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer srv.Shutdown()
	var all sync.WaitGroup
	for _, args := range []string{"status", "findings", "stop", "start", "work --jobs 1"} {
		all.Go(func() {
			var out, stderr bytes.Buffer
			code := run(append([]string{"campaign"}, append(strings.Fields(args), "--nats", srv.ClientURL())...), streams{strings.NewReader(""), &out, &stderr})
			if code != exitEnvironment || !strings.Contains(stderr.String(), "this server has no JetStream") {
				t.Errorf("%s: exit code %d, %s%s", args, code, out.String(), stderr.String())
			}
		})
	}
	all.Wait()
}
