// The public names of pointfreeco/swift-clocks 1.0, without their content: a program that imports both must compile.
public struct AnyClock {}
public final class ImmediateClock {}
public final class TestClock {}
public struct UnimplementedClock {}
public struct SuspensionError {}
