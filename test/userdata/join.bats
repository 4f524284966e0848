#!/usr/bin/env bats
# dynk8s-join: how it goes when all goes well, and its settings.

load world

setup() {
	setup_world
	start_server
}
teardown() { stop_server; }

@test "an instance joins" {
	script dynk8s-join
	joined
	says "dynk8s-join: this is i-0123456789abcdef0"
	says "dynk8s-join: joined"
	says "with the token [bootstrap token]"
	called "systemctl enable wg-quick@dynk8s.service"
	called "wg set dynk8s peer peer= persistent-keepalive 25"
	grep -q "^After=wg-quick@dynk8s.service" "$DYNK8S_ROOT/etc/systemd/system/kubelet.service.d/30-dynk8s-join.conf"
}

@test "a node that has joined does nothing" {
	script dynk8s-join
	joined
	local before
	before=$(find "$DYNK8S_ROOT/etc" "$DYNK8S_ROOT/var" -type f -exec sha256sum {} + | sort)
	rm "$WORLD/requests"
	: >"$WORLD/calls"
	script dynk8s-join
	joined
	says "nothing to do"
	[ ! -e "$WORLD/requests" ]
	not_called "kubeadm"
	not_called "restart"
	[ "$before" = "$(find "$DYNK8S_ROOT/etc" "$DYNK8S_ROOT/var" -type f -exec sha256sum {} + | sort)" ]
}

@test "a node that has joined gets its tunnel back after a reboot, without the endpoint" {
	script dynk8s-join
	joined
	stop_server
	reboot
	rm -f "$WORLD/state/link"
	script dynk8s-join
	joined
}

@test "a node that has joined keeps no secret that was left" {
	script dynk8s-join
	mkdir -p "$DYNK8S_ROOT/etc/kubernetes/dynk8s"
	cp "$WORLD/body/join" "$DYNK8S_ROOT/etc/kubernetes/dynk8s/join.yaml"
	cp "$WORLD/secrets/token" "$DYNK8S_ROOT/etc/kubernetes/bootstrap-kubelet.conf"
	cp "$WORLD/secrets/token" "$DYNK8S_ROOT/etc/kubernetes/dynk8s/.dynk8s-join.abcdef"
	script dynk8s-join
	joined
}

@test "a node that has joined and lost its configuration says so" {
	script dynk8s-join
	rm "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf"
	script dynk8s-join
	ends_with 2
	says "is gone"
}

@test "a trace shows no secret" {
	TRACE=-x script dynk8s-join
	joined
	says "+ "
}

@test "a second run at the same time does nothing" {
	mkdir -p "$DYNK8S_ROOT/run/dynk8s"
	flock "$DYNK8S_ROOT/run/dynk8s/join.lock" /bin/sleep 60 3>&- 7>&- &
	local holder=$!
	until ! flock -n "$DYNK8S_ROOT/run/dynk8s/join.lock" true; do :; done
	script dynk8s-join
	kill "$holder"
	ends_with 1
	says "another run is at work"
	[ ! -e "$WORLD/requests" ]
}

@test "a daemon that the tunnel leaves behind holds neither lock nor journal" {
	knob tunnel-daemon
	script dynk8s-join
	joined
	local daemon
	daemon=$(cat "$WORLD/daemon")
	[ -e "/proc/$daemon/fd/1" ] # it lives: nobody waited for it
	[ ! -e "/proc/$daemon/fd/4" ]
	[ ! -e "/proc/$daemon/fd/9" ]
	script dynk8s-join
	kill "$daemon"
	joined
}

@test "other paths and another interface" {
	sed -i 's|/etc/kubernetes/dynk8s/discovery.conf|/run/other/discovery.conf|' "$WORLD/body/join"
	setting DYNK8S_INTERFACE=wg-cloud DYNK8S_DISCOVERY_FILE=/run/other/discovery.conf DYNK8S_JOIN_FILE=/run/other/join.yaml
	script dynk8s-join
	ends_with 0
	cmp "$WORLD/body/wireguard" "$DYNK8S_ROOT/etc/wireguard/wg-cloud.conf"
	[ "$(secret_files)" = "$DYNK8S_ROOT/etc/wireguard/wg-cloud.conf" ]
	called "kubeadm join --config $DYNK8S_ROOT/run/other/join.yaml"
	called "systemctl restart wg-quick@wg-cloud.service"
}

@test "another discovery file than the provisioner's is said before kubeadm fails over it" {
	setting DYNK8S_DISCOVERY_FILE=/run/other/discovery.conf
	script dynk8s-join
	ends_with 2
	says "artifacts.kubeadm.discoveryFile"
	not_called "kubeadm join"
}

@test "the second address of IMDS is asked when the first is silent" {
	setting "DYNK8S_IMDS=http://127.0.0.1:1 http://127.0.0.1:$IMDS_PORT"
	sed -i '/^DYNK8S_IMDS=http:[^ ]*$/d' "$DYNK8S_ROOT/etc/dynk8s/join.env"
	script dynk8s-join
	joined
}

@test "what the environment says goes before the file, and values may be quoted" {
	settings 'DYNK8S_ENDPOINT="https://127.0.0.1:1"' "DYNK8S_CA_FILE='/etc/dynk8s/ca.pem'" "# a comment" "" \
		"DYNK8S_IMDS=http://127.0.0.1:$IMDS_PORT"
	DYNK8S_ENDPOINT=https://127.0.0.1:$ENDPOINT_PORT script dynk8s-join
	joined
}

@test "wrong settings are said, each, and end for good" {
	local line
	for line in DYNK8S_ENDPOINT=http://x DYNK8S_ENDPOINT= DYNK8S_ENDPOINT=https:// DYNK8S_ENDPOINT=https://x/path \
		'DYNK8S_ENDPOINT=https://x y' DYNK8S_INTERFACE=sixteen-letters- DYNK8S_INTERFACE=../x DYNK8S_WAIT=0 \
		DYNK8S_WAIT=1h DYNK8S_WAIT=100000 DYNK8S_HANDSHAKE_WAIT=-1 DYNK8S_JOIN_FILE=join.yaml \
		DYNK8S_CA_FILE=/no/such/file; do
		settings "DYNK8S_ENDPOINT=https://127.0.0.1:1"
		sed -i "/^${line%%=*}=/d" "$DYNK8S_ROOT/etc/dynk8s/join.env"
		setting "$line"
		script dynk8s-join
		ends_with 2 || fail "with $line"
		says "${line%%=*}" || fail "with $line"
	done
	settings 'DYNK8S_ENDPOIND=https://x'
	script dynk8s-join
	ends_with 2
	says "is not understood"
	[ ! -e "$WORLD/requests" ]
}

@test "settings are values, not commands" {
	setting "DYNK8S_WAIT=\$(touch $WORLD/executed)"
	script dynk8s-join
	ends_with 2
	[ ! -e "$WORLD/executed" ]
}

@test "a machine that is not set up is said" {
	rm "$WORLD/bin/kubeadm"
	sed -i '/kubeadm/d' "$WORLD/functions"
	PATH=$WORLD/bin:/usr/bin:/bin script dynk8s-join
	ends_with 2
	says "kubeadm is not installed: run dynk8s-node-setup"
}
