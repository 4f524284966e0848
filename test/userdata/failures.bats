#!/usr/bin/env bats
# dynk8s-join: each failure ends in a clear line and leaves a state from which
# the next run goes on to the end.

load world

setup() {
	setup_world
	start_server
}
teardown() { stop_server; }

# fails CODE LINE: a run that ends so, leaves no secret but the key, and after
# which, once the reason is gone, the next run joins.
fails() {
	script dynk8s-join
	ends_with "$1"
	says "$2"
	only_the_key
}
then_joins() {
	no_knobs
	stop_server
	rm -f "$WORLD/ports" "$WORLD/requests"
	rm -rf "$WORLD/secrets" "$WORLD/body"
	start_server
	script dynk8s-join
	joined
}

@test "no IMDS" {
	DYNK8S_IMDS=http://127.0.0.1:1 fails 1 "IMDS does not answer"
	[ ! -e "$WORLD/requests" ]
	then_joins
}

@test "IMDSv1 only: it is not used" {
	answers token 405
	fails 1 "IMDSv2 gives no token (HTTP 405); IMDSv1 is not used"
	[ "$(asked /latest/meta-data)" = 0 ]
	then_joins
}

@test "IMDS that is switched off" {
	answers token 403
	fails 1 "IMDSv2 gives no token (HTTP 403)"
	then_joins
}

@test "IMDS that comes late is waited for" {
	answers token hangup hangup 500 200
	answers document 404 200
	script dynk8s-join
	joined
}

@test "an instance id that is none, a document that is none" {
	printf '../../etc' >"$WORLD/body/instance-id"
	fails 1 "IMDS gives no instance id"
	printf 'i-0123456789abcdef0' >"$WORLD/body/instance-id"
	printf '<html>' >"$WORLD/body/document"
	fails 1 "IMDS gives no instance identity document"
	then_joins
}

@test "the endpoint is down" {
	settings DYNK8S_CA_FILE=/etc/dynk8s/ca.pem "DYNK8S_IMDS=http://127.0.0.1:$IMDS_PORT" DYNK8S_ENDPOINT=https://127.0.0.1:1
	fails 1 "the endpoint refuses connections or cannot be reached"
	says "gave up after 1800s"
	then_joins
}

@test "the endpoint's name does not resolve" {
	settings DYNK8S_CA_FILE=/etc/dynk8s/ca.pem "DYNK8S_IMDS=http://127.0.0.1:$IMDS_PORT" DYNK8S_ENDPOINT=https://no-such-name.invalid
	fails 1 "the endpoint's name does not resolve"
	then_joins
}

@test "connections that break are made again" {
	answers wireguard hangup hangup 200
	answers join hangup 200
	script dynk8s-join
	joined
	says "the connection to the endpoint broke"
}

@test "a certificate of another CA" {
	cp "$WORLD/other-ca.pem" "$DYNK8S_ROOT/etc/dynk8s/ca.pem"
	fails 1 "the endpoint's certificate is not trusted"
	[ "$(asked /wireguard)" = 0 ]
	then_joins
}

@test "a pinned CA is the only one: the system's are not trusted" {
	cp "$WORLD/other-ca.pem" "$DYNK8S_ROOT/etc/dynk8s/ca.pem"
	# The endpoint's CA is one of the system's: in the folder that curl may have
	# built in, under the name by which it is looked up there. The mount is in a
	# namespace of the test's own.
	mount -t tmpfs tmpfs /etc/ssl/certs
	cp "$WORLD/ca.pem" "/etc/ssl/certs/$(openssl x509 -hash -noout -in "$WORLD/ca.pem").0"
	cp "$WORLD/ca.pem" /etc/ssl/certs/ca-certificates.crt
	CURL_CA_BUNDLE=$WORLD/ca.pem script dynk8s-join
	umount /etc/ssl/certs
	ends_with 1
	says "the endpoint's certificate is not trusted"
	[ "$(asked /wireguard)" = 0 ]
}

@test "without a pinned CA the system's are trusted" {
	sed -i /DYNK8S_CA_FILE/d "$DYNK8S_ROOT/etc/dynk8s/join.env"
	fails 1 "the endpoint's certificate is not trusted"
	CURL_CA_BUNDLE=$WORLD/ca.pem script dynk8s-join
	joined
}

@test "a wrong certificate that is put right" {
	answers certificate wrong wrong wrong right
	script dynk8s-join
	joined
	says "the endpoint's certificate is not trusted"
}

@test "404 for minutes, then 200" {
	local waiting
	mapfile -t waiting < <(yes '404 Retry-After=60' | head -20)
	answers wireguard "${waiting[@]}" 200
	script dynk8s-join
	joined
	says "nothing is allocated to this instance yet"
	read -r up _ <"$DYNK8S_ROOT/proc/uptime"
	[ "${up%%.*}" -ge 2200 ] # 20 times at least a minute
	[ "$(asked "/wireguard/.* 404")" = 20 ]
	# Said now and then, not each time.
	[ "$(grep -c "nothing is allocated" "$WORLD/output")" -le 10 ]
}

@test "404 without end" {
	setting DYNK8S_WAIT=200
	answers wireguard '404 Retry-After=5'
	fails 1 "gave up after 200s"
	then_joins
}

@test "Retry-After: as told, with a bound, and whatever it says" {
	answers wireguard '429 Retry-After=30' '503 Retry-After=999999999999999999999' '503 Retry-After=Fri,_31_Dec_2027_23:59:59_GMT' \
		'503 Retry-After=-5' '503 Retry-After=08' '503 Retry-After=0' 500 302 401 200
	script dynk8s-join
	joined
	grep '^sleep' "$WORLD/calls" >"$WORLD/sleeps"
	local slept
	slept=$(sed -n 's/^sleep //p' "$WORLD/sleeps" | tr '\n' ' ')
	read -r first second third _ <<<"$slept"
	[ "$first" -ge 30 ] && [ "$first" -le 39 ] || fail "slept $slept"
	[ "$second" -ge 300 ] && [ "$second" -le 377 ] || fail "slept $slept"
	[ "$third" -le 4 ] || fail "slept $slept"
	says "saw no identity document"
	says "HTTP 302"
}

@test "pauses grow, up to a bound, and differ" {
	answers wireguard hangup
	fails 1 "gave up"
	sed -n 's/^sleep //p' "$WORLD/calls" | sort -n | uniq -c >"$WORLD/sleeps"
	[ "$(tail -1 "$WORLD/sleeps" | awk '{print $2}')" -le 60 ]
	[ "$(wc -l <"$WORLD/sleeps")" -ge 8 ]
	then_joins
}

@test "403 is final, at each artifact" {
	answers wireguard 403
	fails 3 "WireGuard configuration: the endpoint refuses this instance for good"
	[ "$(asked /wireguard)" = 1 ]
	rm "$WORLD/answers/wireguard"
	answers join 403
	fails 3 "join configuration: the endpoint refuses this instance for good"
	not_called "kubeadm join"
	then_joins
}

@test "an empty, cut, endless or wrong WireGuard configuration replaces nothing" {
	mkdir -p "$DYNK8S_ROOT/etc/wireguard"
	echo before >"$DYNK8S_ROOT/etc/wireguard/dynk8s.conf"
	setting DYNK8S_WAIT=20
	cp "$WORLD/body/wireguard" "$WORLD/whole"
	local lines
	for lines in 0 1 2 3 4 5 6 7; do
		head -$lines "$WORLD/whole" >"$WORLD/body/wireguard"
		fails 1 "empty or not complete"
	done
	cp "$WORLD/whole" "$WORLD/body/wireguard"
	answers wireguard cut
	fails 1 "the connection to the endpoint broke"
	answers wireguard endless
	fails 1 "the answer is too large"
	[ "$(cat "$DYNK8S_ROOT/etc/wireguard/dynk8s.conf")" = before ]
	not_called wg-quick@
	then_joins
}

@test "an empty or wrong discovery file or join configuration" {
	setting DYNK8S_WAIT=20
	local name
	for name in kubeconfig join; do
		cp "$WORLD/body/$name" "$WORLD/whole"
		: >"$WORLD/body/$name"
		fails 1 "empty or not complete"
		head -3 "$WORLD/whole" >"$WORLD/body/$name"
		fails 1 "empty or not complete"
		cp "$WORLD/whole" "$WORLD/body/$name"
		answers "$name" cut
		fails 1 "the connection to the endpoint broke"
		rm "$WORLD/answers/$name"
	done
	not_called "kubeadm join"
	then_joins
}

@test "the tunnel's interface does not come" {
	knob no-interface
	fails 1 "wg-quick@dynk8s.service does not bring the interface up"
	[ "$(asked /kubeadm)" = 0 ]
	then_joins
}

@test "an interface of that name is in the way" {
	touch "$WORLD/state/link"
	script dynk8s-join
	joined
	called "ip link delete dev dynk8s"
}

@test "a tunnel without handshake" {
	knob no-handshake
	fails 1 "no handshake on dynk8s within 120s"
	[ "$(asked /kubeadm)" = 0 ]
	then_joins
}

@test "a join that is refused" {
	knob join-refused
	fails 1 "kubeadm join failed, its output is above"
	says "not authorized: [bootstrap token]"
	then_joins
	called "kubeadm reset --force"
}

@test "an interrupted join that the kubelet finishes" {
	knob join-refused
	fails 1 "kubeadm join failed"
	no_knobs
	knob kubelet-finishes
	script dynk8s-join
	joined finished
	not_called "kubeadm reset"
	[ -e "$WORLD/state/active-kubelet.service" ]
}
