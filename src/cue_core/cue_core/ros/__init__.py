"""The shared ROS edge: conversions, QoS, parameters, node life cycle. Only this package of cue_core imports ROS."""
