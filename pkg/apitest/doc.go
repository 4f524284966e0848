// Package apitest is an in-memory stand-in for what this program uses of the
// Kubernetes API server: Secrets and Nodes, and informers' caches of both. It
// is for tests.
//
// A Server holds the objects. Each Client of it, one for every replica, has a
// hook that is called once before each call and may let it fail, hold it up, or
// do something else first; the call itself is then one atomic step. Whoever
// decides in the hook which call goes next explores interleavings. A View is
// one replica's cache, in step with the Server or behind it, as the test wills.
//
// As the API server does, and unlike client-go's fake clientset, it refuses
// stale resource versions and failed preconditions, gives each created object a
// fresh UID, leaves the resource version alone when an update changes nothing,
// keeps the type of a Secret, honours label selectors and the field selectors
// type and metadata.name, and never shares memory with its callers.
//
// It differs from the API server in this:
//   - Nothing is validated, defaulted or pruned; stringData and generateName
//     are refused.
//   - Lists are never paged, and resourceVersion in the options of Get and List
//     is not looked at: every read is of the latest state.
//   - There are no finalizers, no graceful deletion and no status subresource.
//   - A View sees every change and in the order of the writes; a watch may drop
//     to a new list and skip what lay between.
//   - No rate limit, no admission, no authorization.
package apitest
