import { describe, expect, test } from 'vitest';
import { packagesWithoutSdk, requirementsWithoutSdk } from './sdk-requirement.ts';

describe('requirements.txt', () => {
  test.each([
    'agent-platform-sdk',
    'agent-platform-sdk==0.1.0',
    '  Agent_Platform.SDK >= 0.1, < 1  # ours',
    'agent-platform-sdk[extra]; python_version > "3.8"',
    'agent-platform-sdk==0.1.0 \\\n    --hash=sha256:abc \\\n    --hash=sha256:def',
    'agent-platform-sdk @ file:///home/me/agent-platform/sdk/python',
  ])('%j is left out', (line) => {
    expect(requirementsWithoutSdk(`requests==2.32.0\n${line}\nrich\n`)).toBe('requests==2.32.0\nrich\n');
    expect(requirementsWithoutSdk(`requests\r\n${line}`)).toBe('requests\r\n');
  });

  test.each([
    'agent-platform-sdk-extras',
    'agent-platform',
    'my-agent-platform-sdk',
    '# agent-platform-sdk',
    'agent-platform-sdk @ git+https://example.org/fork.git',
    'agent-platform-sdk[a] @ file:./vendored',
    './agent-platform-sdk',
  ])('%j stays', (line) => {
    expect(requirementsWithoutSdk(`${line}\nrich\n`)).toBe(`${line}\nrich\n`);
  });
});

describe('package.json', () => {
  const packageWith = (wanted: string) =>
    JSON.stringify({ name: 'a', dependencies: { 'agent-platform-sdk': wanted, ms: '2.1.3' } });

  test.each(['^0.1.0', '*', 'latest', 'file:../../sdk/js', 'file:/home/me/sdk/js', '../sdk/js', 'link:a/../../sdk'])(
    '%j is left out',
    (wanted) => {
      const { packageJson, lock } = packagesWithoutSdk(packageWith(wanted));
      expect(JSON.parse(packageJson)).toEqual({ name: 'a', dependencies: { ms: '2.1.3' } });
      expect(lock).toBeUndefined();
    },
  );

  test.each(['file:./vendored', './vendored', 'npm:other@1', 'git+ssh://example.org/a.git', 'someone/fork'])(
    '%j stays',
    (wanted) => {
      const text = packageWith(wanted);
      expect(packagesWithoutSdk(text, '{}')).toEqual({ packageJson: text, lock: '{}' });
    },
  );

  test('the lock file still agrees', () => {
    const packages = {
      '': { name: 'a', dependencies: { 'agent-platform-sdk': 'file:../sdk/js', ms: '2.1.3' } },
      '../sdk/js': { name: 'agent-platform-sdk', version: '0.1.0' },
      'node_modules/agent-platform-sdk': { resolved: '../sdk/js', link: true },
      'node_modules/ms': { version: '2.1.3' },
    };
    const { lock } = packagesWithoutSdk(
      packageWith('file:../sdk/js'),
      JSON.stringify({ lockfileVersion: 3, packages, dependencies: { 'agent-platform-sdk': {}, ms: {} } }),
    );
    expect(JSON.parse(lock!)).toEqual({
      lockfileVersion: 3,
      packages: { '': { name: 'a', dependencies: { ms: '2.1.3' } }, 'node_modules/ms': { version: '2.1.3' } },
      dependencies: { ms: {} },
    });
  });

  test('a file that npm would refuse is unchanged', () => {
    for (const text of ['', 'null', '[]', '{"dependencies":[]}', '{"dependencies":{"agent-platform-sdk":1}}']) {
      expect(packagesWithoutSdk(text, '{').packageJson).toBe(text);
    }
    expect(packagesWithoutSdk(packageWith('1'), '{').lock).toBe('{');
  });
});
