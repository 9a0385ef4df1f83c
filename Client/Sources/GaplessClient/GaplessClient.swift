// The client library under a name that no type has. In a program that imports `APNSClient`, `APNSClient.Push` is looked up in the
// class of that name; `GaplessClient.Push` always names the type of this library.
@_exported public import APNSClient
