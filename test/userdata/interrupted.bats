#!/usr/bin/env bats
# dynk8s-join: full disks, and power cuts at each step.

load world

setup() {
	setup_world
	start_server
}
teardown() {
	stop_server
	umount "$DYNK8S_ROOT"/{run,etc/wireguard,etc/kubernetes} 2>/dev/null || true
}

# full FOLDER: a small file system, filled to the last byte. The test runs in a
# mount namespace of its own.
full() {
	mkdir -p "$DYNK8S_ROOT/$1"
	mount -t tmpfs -o size=64k tmpfs "$DYNK8S_ROOT/$1"
	cat /dev/zero >"$DYNK8S_ROOT/$1/filler" 2>/dev/null || true
}

@test "a full disk for the WireGuard configuration, the artifacts, the state of a run" {
	local folder
	for folder in run etc/wireguard etc/kubernetes; do
		full $folder
		script dynk8s-join
		ends_with 1 || fail "$folder"
		says "cannot write in $DYNK8S_ROOT/$folder" || fail "$folder"
		says "is it full?"
		only_the_key
		[ ! -s "$DYNK8S_ROOT/etc/kubernetes/kubelet.conf" ]
		rm "$DYNK8S_ROOT/$folder/filler"
	done
	script dynk8s-join
	joined
}

@test "a full disk does not cost the configuration that is there" {
	script dynk8s-join
	joined
	rm -rf "$DYNK8S_ROOT/etc/kubernetes"
	cp "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf" "$WORLD/before"
	full etc/wireguard
	rm "$DYNK8S_ROOT/etc/wireguard/filler"
	cp "$WORLD/before" "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf"
	cat /dev/zero >"$DYNK8S_ROOT/etc/wireguard/filler" 2>/dev/null || true
	script dynk8s-join
	ends_with 1
	cmp "$WORLD/before" "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf"
}

# after_cut: power was cut in a run; the machine boots and joins.
after_cut() {
	ends_with 137 || fail "$1: it was not cut off"
	reboot
	script dynk8s-join
	joined
}

@test "power cuts while a request is under way" {
	local name
	for name in token instance-id document wireguard kubeconfig join; do
		answers "$name" kill 200
		script dynk8s-join
		after_cut "$name"
		anew
	done
}

@test "power cuts at each step of tunnel and join" {
	local step
	for step in tunnel tunnel-up handshake join join-bootstrap join-half join-kubelet join-done; do
		knob die-at "$step"
		script dynk8s-join
		after_cut "$step"
		anew
	done
	called "kubeadm reset --force"
}

@test "power cuts while an interrupted join is cleared" {
	knob die-at join-half
	script dynk8s-join
	reboot
	knob die-at reset
	script dynk8s-join
	after_cut reset
}

@test "being stopped leaves no secret" {
	answers wireguard hangup
	# The real sleep: the signal must find it waiting.
	cp /bin/sleep "$WORLD/bin/sleep"
	(
		until [ -s "$WORLD/pid" ] && grep -q wireguard "$WORLD/requests" 2>/dev/null; do /bin/sleep 0.05; done
		kill -TERM -- "-$(cat "$WORLD/pid")"
	) 3>&- 7>&- &
	local killer=$!
	script dynk8s-join
	wait "$killer"
	ends_with 1
	[ -z "$(secret_files)" ] || fail "secrets are left: $(secret_files)"
}
