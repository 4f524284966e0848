package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// probeBody bounds how much of an answer is read and shown.
const probeBody = 4 << 10

func newProbeCommand() *cobra.Command {
	var p probe
	cmd := &cobra.Command{
		Use:   "probe URL",
		Short: "Ask a URL and check the status of the answer",
		Long: `Sends one GET and ends well if the answer has one of the wanted codes. The image
has no shell and no other program that could ask.`,
		Example: `  dynk8s-provisioner probe http://dynk8s-provisioner-operations:8081/readyz
  dynk8s-provisioner probe --status 401 --insecure https://dynk8s-provisioner:8080/kubeadm/join/i-0123456789abcdef0`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), p.timeout)
			defer cancel()
			return p.run(ctx, args[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntSliceVar(&p.codes, "status", []int{http.StatusOK}, "wanted HTTP status codes")
	cmd.Flags().DurationVar(&p.timeout, "timeout", 10*time.Second, "how long the answer may take")
	cmd.Flags().BoolVar(&p.insecure, "insecure", false, "take any TLS certificate")
	return cmd
}

type probe struct {
	codes    []int
	timeout  time.Duration
	insecure bool
}

func (p probe) run(ctx context.Context, url string, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: p.insecure}}, //nolint:gosec // asked for, and nothing secret is sent
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, probeBody))
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n%s", answer.Status, body); err != nil {
		return err
	}
	if !slices.Contains(p.codes, answer.StatusCode) {
		return fmt.Errorf("%s answers %d, want one of %v", url, answer.StatusCode, p.codes)
	}
	return nil
}
