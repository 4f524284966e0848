//go:build linux

package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"dynk8s.du5t1n.me/provisioner/pkg/instance"
	"dynk8s.du5t1n.me/provisioner/test/daemon"
)

// Installed by helm, and run with no other rights than the chart gives: the whole
// main job, with a real join.
func TestChartMainJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	r := w.newRelease()
	r.install(nil)
	d := r.startPod("pod", r.mountConfig())
	must(t, d.Ready(w.ctx))
	ids := w.launch(2)
	w.announce(instance.Running, ids...)
	w.eventually("provisioned", func() error { return w.provisioned(ids...) })
	node := w.join(d, ids[0])
	w.eventually("token revoked once the Node is Ready", func() error { return w.tokenRevoked(ids[0]) })
	w.closedTo(d, ids[0])
	w.eventually("restricted label and taint", func() error { return w.restricted(ids[0]) })
	must(t, node.Stop())
	w.terminate(ids...)
	w.eventually("taken back", func() error { return w.takenBack(ids...) })
	w.eventually("the Node is gone", func() error {
		if found, err := w.nodeOf(ids[0]); err != nil || found != nil {
			return fmt.Errorf("Node %v, %w", found, err)
		}
		return nil
	})
	w.eventually("an Event tells of it", func() error { return w.eventTold("WireGuardKeyReleased") })
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	lines, err := forbidden(d)
	must(t, err)
	if len(lines) > 0 {
		t.Errorf("the chart gives too few rights: %s", strings.Join(lines, ""))
	}
}

func (w *world) eventTold(reason string) error {
	list, err := w.client.CoreV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err == nil && len(list.Items) == 0 {
		err = errors.New("no Event " + reason)
	}
	return err
}

// A changed selector reaches the running daemon by `helm upgrade` alone, and a
// setting that needs a restart changes the pods; both can be rolled back, and
// what selects the pods stays.
func TestChartUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(2)
	r := w.newRelease()
	r.install(nil)
	d := r.startPod("pod", r.mountConfig())
	must(t, d.Ready(w.ctx))
	selector, template := r.podTemplate()
	odd, err := w.ec2.Launch(w.ctx, map[string]string{clusterTag: w.name, "Name": "odd"})
	must(t, err)

	r.upgrade(map[string]any{"profiles": []any{map[string]any{
		"name": "worker", "selector": []any{map[string]any{"key": clusterTag, "values": []any{w.name}}},
	}}})
	if s, now := r.podTemplate(); s != selector || now != template {
		t.Errorf("a changed profile changes the pods:\n%s\n%s", template, now)
	}
	must(t, w.takenBack(odd))
	r.mountConfig()
	w.eventually("provisioned by the new selector", func() error { return w.provisioned(odd) })

	r.upgrade(map[string]any{"queue": map[string]any{"url": w.path.QueueURL, "visibilityTimeout": "20s", "waitTime": "2s"}})
	if s, now := r.podTemplate(); s != selector || now == template {
		t.Error("a setting that needs a restart does not change the pods, or changes what selects them")
	}
	r.run("rollback", releaseName, "1")
	if s, now := r.podTemplate(); s != selector || now != template {
		t.Errorf("after the rollback:\n%s\n%s", template, now)
	}
}

// Every query of the dashboard and of the alerts is about metrics that a running
// daemon has.
func TestChartQueriesNameMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addKeys(1)
	r := w.newRelease()
	r.install(nil)
	d := r.startPod("pod", r.mountConfig())
	must(t, d.Ready(w.ctx))
	id := w.launch(1)[0]
	w.announce(instance.Running, id)
	w.eventually("provisioned", func() error { return w.provisioned(id) })
	_, err := w.fetch(d, "wireguard/config", id, http.StatusOK)
	must(t, err)
	_, err = w.fetchWith(d, "wireguard/config", id, "", http.StatusUnauthorized)
	must(t, err)
	w.eventually("settled", func() error { return w.queuesHold(0, 0) })
	_, exported, err := daemon.Get(w.ctx, d.OperationsURL()+"/metrics")
	must(t, err)
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9_]+)(?:\{| )`).FindAllSubmatch(exported, -1) {
		known[string(m[1])] = true
	}
	named := regexp.MustCompile(`\b(?:dynk8s|process|go)_[a-z0-9_]+\b`)
	files, err := filepath.Glob(filepath.Join(r.chart, "dashboards", "*.json"))
	must(t, err)
	if len(files) == 0 {
		t.Fatal("there is no dashboard")
	}
	queries := 0
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		var dashboard any
		must(t, json.Unmarshal(content, &dashboard))
		for _, query := range fieldsNamed(dashboard, "expr") {
			queries++
			metrics := named.FindAllString(query, -1)
			if len(metrics) == 0 {
				t.Errorf("%s: %q names no metric of the daemon", filepath.Base(file), query)
			}
			for _, metric := range metrics {
				if !known[metric] {
					t.Errorf("%s: no metric %s, in %q", filepath.Base(file), metric, query)
				}
			}
		}
	}
	rendered := r.run("template", releaseName, r.chart, "-f", filepath.Join(r.chart, "ci", "full-values.yaml"), "--show-only", "templates/monitoring/prometheusrule.yaml")
	var alerts any
	must(t, yaml.Unmarshal([]byte(rendered), &alerts))
	for _, query := range fieldsNamed(alerts, "expr") {
		queries++
		for _, metric := range named.FindAllString(query, -1) {
			if !known[metric] {
				t.Errorf("alerts: no metric %s, in %q", metric, query)
			}
		}
	}
	if queries < 20 {
		t.Errorf("only %d queries were found", queries)
	}
}

// fieldsNamed returns every text under the name, at any depth.
func fieldsNamed(v any, name string) []string {
	var texts []string
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if text, ok := value.(string); ok && key == name {
				texts = append(texts, text)
			}
			texts = append(texts, fieldsNamed(value, name)...)
		}
	case []any:
		for _, value := range v {
			texts = append(texts, fieldsNamed(value, name)...)
		}
	}
	return texts
}
