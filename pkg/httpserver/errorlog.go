package httpserver

import (
	"bytes"
	"context"
	"log"
	"log/slog"
	"strings"
)

// errorLog brings what net/http has to say into the structured log.
type errorLog struct{ log *slog.Logger }

func newErrorLog(l *slog.Logger) *log.Logger { return log.New(errorLog{l}, "", 0) }

// Write logs one message. Handshakes that fail are everyday life on a port that
// faces the internet.
func (e errorLog) Write(p []byte) (int, error) {
	message, level := string(bytes.TrimSpace(p)), slog.LevelWarn
	if strings.HasPrefix(message, "http: TLS handshake error") {
		level = slog.LevelDebug
	}
	e.log.Log(context.Background(), level, "http server", "err", message)
	return len(p), nil
}
