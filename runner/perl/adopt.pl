#!/usr/bin/perl
# Becomes the process that adopts every orphan below it, and runs the program of its arguments, which keeps that role
# (prctl(2)). So the runner of a Lambda function, which is not process 1, finds all processes that a session has left.
use strict;
use warnings;

BEGIN { require(__FILE__ =~ s{[^/]*$}{init.pl}r) }
our $SYS;

sys('prctl', PR_SET_CHILD_SUBREAPER(), 1, 0, 0, 0);
exec { $ARGV[0] } @ARGV or die "cannot start $ARGV[0]: $!\n";
