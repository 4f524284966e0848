package poller

import (
	"context"
	"log/slog"
	"time"

	"dynk8s.du5t1n.me/provisioner/pkg/ec2event"
	"dynk8s.du5t1n.me/provisioner/pkg/sqsqueue"
)

// The reason of a message is told once in toldLife, of the last toldCount
// messages.
const (
	toldLife  = 24 * time.Hour
	toldCount = 4096
)

// malformed gives a message that cannot be understood back for a short time, so
// that the redrive policy soon has it. After enough receives it looks whether
// there is such a policy at all.
func (p *Poller) malformed(ctx context.Context, e *entry, m sqsqueue.Message, reason error) {
	p.metrics.count(outcomeMalformed, 1)
	level := slog.LevelDebug
	// Once a message. The receive count would not do: the first receive may have
	// been lost on its way, or been another replica's that was killed.
	if _, told := p.told.Get(m.ID); !told {
		p.told.Add(m.ID, nil, toldLife)
		level = slog.LevelWarn
	}
	p.log.Log(ctx, level, "message cannot be understood", "message_id", m.ID, "outcome", outcomeMalformed,
		"receive_count", m.ReceiveCount, "err", reason)
	if m.ReceiveCount < p.cfg.MalformedLimit {
		p.hand.giveBack(e, p.cfg.MinBackoff)
		return
	}
	// Asking may take seconds, which receiving shall not wait for. The
	// goroutines are bounded as messages in hand are.
	p.discarding.Go(func() { p.discardUnlessRedriven(ctx, e, m, reason) })
}

func (p *Poller) discardUnlessRedriven(ctx context.Context, e *entry, m sqsqueue.Message, reason error) {
	redriven, err := p.redrive.exists(ctx)
	if err != nil {
		p.log.Warn("unknown whether a redrive policy exists; message kept", "message_id", m.ID, "err", err)
	}
	if err != nil || redriven {
		p.hand.giveBack(e, p.cfg.MinBackoff)
		return
	}
	if p.hand.delete(e, ec2event.Event{}) {
		p.metrics.count(outcomeDiscarded, 1)
		p.log.Warn("message discarded: it cannot be understood and no redrive policy takes it", "message_id", m.ID,
			"outcome", outcomeDiscarded, "receive_count", m.ReceiveCount, "err", reason)
	}
}
