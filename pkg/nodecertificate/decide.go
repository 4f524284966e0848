package nodecertificate

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons in the condition of a request that was decided.
const (
	ReasonApproved = "DynK8sApproved"
	ReasonRefused  = "DynK8sRefused"
)

// decide approves or denies the request of that name, if it is still pending
// and for us to decide. With an error nothing was decided.
func (a *Approver) decide(ctx context.Context, name string) error {
	// The informer's copy may be old, and holds less.
	live, err := a.requests.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read certificate request: %w", err)
	}
	r, ours := a.requestorOf(live)
	if !ours || !pending(live) {
		return nil
	}
	s, err := a.subjectOf(ctx, r)
	if err == nil {
		err = check(r, &live.Spec, s)
	}
	if errors.Is(err, ErrNotOurs) {
		a.log.DebugContext(ctx, "certificate request left to others", "request", name, "requestor", live.Spec.Username)
		return nil
	}
	if refusal, refused := errors.AsType[Refusal](err); refused {
		return a.settle(ctx, live, r, s, denied, string(refusal))
	}
	if err != nil {
		return fmt.Errorf("evaluate certificate request: %w", err)
	}
	return a.settle(ctx, live, r, s, approved, "asks for no more than "+s.describe()+" may have")
}

// errConflict says that the request changed since it was read; it is to be
// evaluated again.
var errConflict = errors.New("the certificate request changed meanwhile")

// conditionOf returns the condition that makes the result of a request known.
func conditionOf(res result, message string) certificatesv1.CertificateSigningRequestCondition {
	c := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateDenied, Status: corev1.ConditionTrue,
		Reason: ReasonRefused, Message: message, LastUpdateTime: metav1.Now(),
	}
	if res == approved {
		c.Type, c.Reason = certificatesv1.CertificateApproved, ReasonApproved
	}
	return c
}

// settle writes the decision, if the request is as it was read.
func (a *Approver) settle(ctx context.Context, live *certificatesv1.CertificateSigningRequest, r requestor, s Subject, res result, message string) error {
	update := live.DeepCopy()
	update.Status.Conditions = append(update.Status.Conditions, conditionOf(res, message))
	_, err := a.requests.UpdateApproval(ctx, live.Name, update, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return errConflict
	case err != nil:
		return fmt.Errorf("update approval of certificate request: %w", err)
	}
	a.count(r.signer, res)
	a.log.InfoContext(ctx, "certificate request decided", "request", live.Name, "signer", string(r.signer),
		"instance", s.InstanceID, "node", s.NodeName, "requestor", live.Spec.Username, "decision", string(res), "reason", message)
	return nil
}
