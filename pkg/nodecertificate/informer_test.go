package nodecertificate

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func TestInformerFeedsRun(t *testing.T) {
	t.Parallel()
	clientset := fake.NewClientset(clientRecipe().make(t, "early"))
	client := clientset.CertificatesV1().CertificateSigningRequests()
	approvals := make(chan *certificatesv1.CertificateSigningRequest, 10)
	clientset.PrependReactor("update", "certificatesigningrequests", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "approval" {
			t.Errorf("an update of %q", action.GetSubresource())
		}
		approvals <- action.(clientgotesting.UpdateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		return false, nil, nil
	})
	// The fake loses what is created between the informer's list and its watch.
	watching := make(chan struct{}, 10)
	clientset.PrependWatchReactor("certificatesigningrequests", func(action clientgotesting.Action) (bool, watch.Interface, error) {
		w, err := clientset.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watching <- struct{}{}
		return true, w, err
	})
	informer, err := NewInformer(clientset)
	if err != nil {
		t.Fatal(err)
	}
	a := New(client, newLedger(), Config{Logger: slog.New(slog.DiscardHandler)})
	if _, err := informer.AddEventHandler(a.EventHandler()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { informer.RunWithContext(ctx) })
	group.Go(func() { _ = a.Run(ctx) })
	t.Cleanup(func() {
		stop()
		group.Wait()
	})

	wantApproved(t, <-approvals)
	<-watching
	for name, r := range map[string]*recipe{"client": clientRecipe(), "serving": servingRecipe()} {
		if _, err := client.Create(ctx, r.make(t, name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		request := <-approvals
		wantApproved(t, request)
		if request.Name != name || len(request.Spec.Request) == 0 {
			t.Errorf("approved %s with %d bytes, want %s", request.Name, len(request.Spec.Request), name)
		}
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	request := clientRecipe().make(t, "csr-1")
	request.UID, request.ResourceVersion = "uid", "7"
	request.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: "True", Message: "long"}}
	trimmed, err := trim(request)
	if err != nil {
		t.Fatal(err)
	}
	slim := trimmed.(*certificatesv1.CertificateSigningRequest)
	if slim.Spec.Request != nil || slim.ManagedFields != nil || slim.Status.Conditions[0].Message != "" {
		t.Errorf("kept %+v", slim)
	}
	a := newWorld().Approver
	got, ours := a.requestorOf(slim)
	if want, _ := a.requestorOf(request); !ours || got != want || pending(slim) || slim.Name != "csr-1" || slim.UID != "uid" || slim.ResourceVersion != "7" {
		t.Errorf("lost %+v", slim)
	}
	gone := cache.DeletedFinalStateUnknown{Key: "csr-1"}
	if other, err := trim(gone); err != nil || other != any(gone) {
		t.Errorf("%v, %v", other, err)
	}
}

func TestEventHandlerFilters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*recipe)
		want   int
	}{
		"ours":       {func(*recipe) {}, 1},
		"a person's": {username("admin"), 0},
		"decided upon": {func(r *recipe) {
			r.status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied}}
		}, 0},
	} {
		w := newWorld()
		r := clientRecipe()
		c.change(r)
		request := r.make(t, "csr-1")
		handler := w.EventHandler()
		handler.OnAdd(request, true)
		handler.OnUpdate(request, request)
		handler.OnDelete(request)
		handler.OnAdd(cache.DeletedFinalStateUnknown{}, false)
		if got := w.queue.Len(); got != c.want {
			t.Errorf("%s: %d in the queue, want %d", name, got, c.want)
		}
		w.queue.ShutDown()
	}
}
