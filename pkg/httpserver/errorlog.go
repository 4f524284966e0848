package httpserver

import (
	"bytes"
	"log"
	"log/slog"
	"slices"
	"strings"
)

// errorLogLines is how many warnings a second net/http may write.
const errorLogLines = 10

// errorLog brings what net/http has to say into the structured log.
type errorLog struct {
	log   *slog.Logger
	lines *brake
}

func newErrorLog(l *slog.Logger) *log.Logger {
	return log.New(errorLog{l, newBrake(errorLogLines)}, "", 0)
}

// everyday are how messages begin of what peers do. It is everyday life on a
// port that faces the internet.
var everyday = []string{"http: TLS handshake error", "http2: server", "timeout waiting for "}

// Write logs one message.
func (e errorLog) Write(p []byte) (int, error) {
	message := string(bytes.TrimSpace(p))
	begins := func(prefix string) bool { return strings.HasPrefix(message, prefix) }
	if slices.ContainsFunc(everyday, begins) {
		e.log.Debug("http server", "err", message)
	} else if held, ok := e.lines.pass(); ok {
		e.log.Warn("http server", "err", message, "suppressed", held)
	}
	return len(p), nil
}
