package httpserver

import (
	"crypto/tls"
	"io"
	"net/http"
	"testing"
)

// Requests a second over TLS on loopback, with connections that are kept.
func BenchmarkArtifactServer(b *testing.B) {
	for _, protocol := range []string{"http/1.1", "h2"} {
		b.Run(protocol, func(b *testing.B) {
			certFile, keyFile := certificateFiles(b)
			s := newTestServer(b, fixedArtifacts{}, AnyCaller(), ArtifactConfig{CertFile: certFile, KeyFile: keyFile})
			run(b, s)
			protocols := new(http.Protocols)
			protocols.SetHTTP1(protocol == "http/1.1")
			protocols.SetHTTP2(protocol == "h2")
			transport := &http.Transport{
				Protocols: protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				MaxIdleConnsPerHost: 32, MaxConnsPerHost: 32,
			}
			defer transport.CloseIdleConnections()
			url := "https://" + s.Addr().String() + joinPath
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					fetch(b, transport, url)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func fetch(b *testing.B, transport *http.Transport, url string) {
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Error(err)
		return
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	if n, err := io.Copy(io.Discard, res.Body); n == 0 || err != nil || res.StatusCode != 200 {
		b.Errorf("%s, %d bytes, %v", res.Status, n, err)
	}
}
