import { describe, expect, test } from 'vitest';
import { ownGroupOf } from './cgroup.ts';

const mounted = (root: string, at: string, type = 'cgroup2') =>
  `35 24 0:30 ${root} ${at} rw,nosuid shared:9 - ${type} cgroup rw`;

describe("a process's cgroup v2", () => {
  test('is found below its mount', () => {
    const mounts = `${mounted('/', '/sys/fs/cgroup/memory', 'cgroup')}\n${mounted('/', '/sys/fs/cgroup')}\n`;
    expect(ownGroupOf('0::/user.slice/a.scope\n', mounts)).toBe('/sys/fs/cgroup/user.slice/a.scope');
    expect(ownGroupOf('0::/\n', mounts)).toBe('/sys/fs/cgroup');
  });

  test('is found where version 1 is mounted beside it', () => {
    const groups = '4:memory:/old\n1:cpu:/\n0::/new\n';
    expect(ownGroupOf(groups, mounted('/', '/sys/fs/cgroup/unified'))).toBe('/sys/fs/cgroup/unified/new');
  });

  test('is found below a mount of a part of the hierarchy', () => {
    const mounts = mounted('/docker/1', '/sys/fs/cgroup');
    expect(ownGroupOf('0::/docker/1/a\n', mounts)).toBe('/sys/fs/cgroup/a');
    expect(ownGroupOf('0::/docker/12/a\n', mounts)).toBe(undefined);
  });

  test('is not found where it is outside of the mounts, or there is none', () => {
    expect(ownGroupOf('0::/../b\n', mounted('/', '/sys/fs/cgroup'))).toBe(undefined);
    expect(ownGroupOf('0::/\n', mounted('/', '/sys/fs/cgroup/memory', 'cgroup'))).toBe(undefined);
    expect(ownGroupOf('4:memory:/\n', mounted('/', '/sys/fs/cgroup'))).toBe(undefined);
  });
});
