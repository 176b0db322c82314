import { describe, expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { checkDependencies } from './check-dependencies.ts';
import { planInstall } from './install-plan.ts';

async function reportOf(files: Readonly<Record<string, string>>) {
  return inspectBundle(zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
}

/** Plans the installation of a bundle. */
async function plan(files: Readonly<Record<string, string>>) {
  return planInstall(
    { python: '3.12.1', node: '24.0.0' },
    { workspaceId: 'w', definition: {} as never },
    await reportOf(files),
    null,
  );
}
const hash = async (files: Readonly<Record<string, string>>) => (await plan(files))!.layerHash;

describe('a change of code alone', () => {
  test.each<[string, Record<string, string>]>([
    ['requirements.txt', { 'requirements.txt': 'six\n' }],
    [
      'a file that it includes',
      {
        'requirements.txt': '-r more/a.txt\n-c limits.txt\n-r constructor',
        'more/a.txt': '-r b.txt',
        'more/b.txt': 'six',
        'limits.txt': 'six<2',
        constructor: 'six',
      },
    ],
    ['pyproject.toml', { 'pyproject.toml': '[project]\ndependencies = ["six"]' }],
    ['package.json', { 'package.json': '{"dependencies":{"a":"1"}}' }],
  ])('installs nothing again beside %s', async (_, files) => {
    const first = await hash({ ...files, 'main.py': '1' });
    expect(await hash({ ...files, 'main.py': '2' })).toBe(first);
    for (const [name, text] of Object.entries(files)) {
      if (name === 'package.json') continue;
      const changed = name === 'pyproject.toml' ? text.replace('six', 'rich') : `${text}\nrich`;
      expect(await hash({ ...files, [name]: changed }), name).not.toBe(first);
    }
  });

  test.each<[string, Record<string, string>]>([
    ['a package of the bundle', { 'requirements.txt': './vendor/x' }],
    ['a package of the bundle in an included file', { 'requirements.txt': '-r a.txt', 'a.txt': '-e ./x' }],
    ['an included file that is not there', { 'requirements.txt': '-r absent.txt' }],
    ['an included file at an absolute path', { 'requirements.txt': '-r /home/user/agent/a.txt', 'a.txt': 'six' }],
    ['a workspace of npm', { 'package.json': '{"workspaces":["packages/*"]}' }],
    ['a workspace of pnpm', { 'package.json': '{"dependencies":{"a":"1"}}', 'pnpm-workspace.yaml': 'packages: [lib]' }],
  ])('installs again where %s may be part of the change', async (_, files) => {
    expect(await hash({ ...files, 'main.py': '1' })).not.toBe(await hash({ ...files, 'main.py': '2' }));
  });

  test('may include a file that includes itself', async () => {
    const files = { 'requirements.txt': 'six\n-r requirements.txt' };
    expect(await hash({ ...files, 'main.py': '1' })).toBe(await hash({ ...files, 'main.py': '2' }));
  });
});

const UV_LOCK = `version = 1
requires-python = ">=3.11"

[[package]]
name = "agent"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "httpx", extra = ["http2"] },
    { name = "lib" },
    { name = "numpy", version = "1.26.4", source = { registry = "https://pypi.org/simple" }, marker = "python_full_version < '3.12'" },
    { name = "numpy", version = "2.1.0", source = { registry = "https://pypi.org/simple" }, marker = "python_full_version >= '3.12'" },
]

[package.dev-dependencies]
dev = [
    { name = "private-tool" },
]

[[package]]
name = "lib"
version = "0.1.0"
source = { editable = "packages/lib" }

[[package]]
name = "httpx"
version = "0.27.0"
source = { registry = "https://pypi.org/simple" }
dependencies = [
    { name = "idna" },
]
wheels = [
    { url = "https://files.pythonhosted.org/httpx.whl", hash = "sha256:0" },
]

[package.optional-dependencies]
http2 = [
    { name = "h2" },
]

[[package]]
name = "idna"
version = "3.7"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "h2"
version = "4.1.0"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "numpy"
version = "1.26.4"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "numpy"
version = "2.1.0"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "private-tool"
version = "1.0.0"
source = { git = "https://github.com/o/r?rev=1#abc" }
`;

const POETRY_LOCK = `[[package]]
name = "six"
version = "1.16.0"
description = "x"
optional = false
groups = ["main", "dev"]

[package.dependencies]
other = ">=1"

[[package]]
name = "old"
version = "2.0"
category = "main"

[[package]]
name = "tool"
version = "3.0"
groups = ["dev"]

[package.source]
type = "git"
url = "https://github.com/o/r"
`;

describe('a lock file of Python', () => {
  test('of uv pins what the project needs, and adds the members of its workspace', async () => {
    const files = {
      'pyproject.toml':
        '[project]\ndependencies = ["httpx[http2]", "lib", "numpy"]\n[tool.uv.sources]\nlib = { workspace = true }',
      'uv.lock': UV_LOCK,
    };
    const { changed, steps } = (await plan(files))!;
    expect(changed).toEqual({
      'requirements.txt': 'httpx[http2]\nlib\nnumpy\n./packages/lib\n',
      // There are two versions of numpy, for different versions of Python.
      'constraints.txt': 'httpx==0.27.0\nidna==3.7\nh2==4.1.0\n',
    });
    expect(steps.map(({ command }) => command).join('\n')).toContain(
      ' -r requirements.txt -c /home/user/changed/constraints.txt',
    );
    expect(await checkDependencies(await reportOf(files), { environment: null }, [])).toEqual([]);
  });

  test('of Poetry pins what the project needs', async () => {
    const project =
      '[tool.poetry.dependencies]\npython = "^3.11"\nsix = "^1.2.3"\nold = {version = "~2.0", extras = ["x", "y"], markers = "sys_platform == \'linux\'"}\nlocal = {path = "vendor/local"}\nspare = {version = "1", optional = true}';
    const files = { 'pyproject.toml': project, 'poetry.lock': POETRY_LOCK };
    expect((await plan(files))!.changed).toEqual({
      'requirements.txt': "six>=1.2.3,<2\nold[x,y]>=2.0,<2.1 ; (sys_platform == 'linux')\n./vendor/local\n",
      'constraints.txt': 'six==1.16.0\nold==2.0\n',
    });
    expect(await checkDependencies(await reportOf(files), { environment: null }, [])).toEqual([]);
  });

  test('that names other places is refused, with its line', async () => {
    const project = { 'pyproject.toml': '[project]\ndependencies = ["x"]' };
    const uv = (source: string) =>
      `[[package]]\nname = "agent"\nsource = { editable = "." }\ndependencies = [{ name = "x" }]\n\n[[package]]\nname = "x"\nversion = "1"\nsource = { ${source} }\n`;
    const check = async (files: Record<string, string>, registries: string[] = []) =>
      checkDependencies(await reportOf({ ...project, ...files }), { environment: null }, registries);
    await expect(check({ 'uv.lock': uv('git = "https://github.com/o/r"') })).rejects.toThrow(
      /^uv.lock, line 6, "x": names a version control/,
    );
    const elsewhere = uv('registry = "https://pypi.example/simple"');
    await expect(check({ 'uv.lock': elsewhere })).rejects.toThrow(/"pypi.example", which is not a package registry/);
    expect(await check({ 'uv.lock': elsewhere }, ['pypi.example:443'])).toEqual([]);
    await expect(check({ 'uv.lock': uv('directory = "../x"') })).rejects.toThrow(
      /"\.\/\.\.\/x", which is not in the bundle/,
    );
    const poetry =
      '[[package]]\nname = "x"\nversion = "1"\n\n[package.source]\ntype = "legacy"\nurl = "https://pypi.example/simple"\n';
    await expect(check({ 'poetry.lock': poetry })).rejects.toThrow(/^poetry.lock, line 1, "x": names an address/);
  });

  test('cannot bring options of pip with it', async () => {
    const lock =
      '[[package]]\nname = "--index-url"\nversion = "1"\n\n[[package]]\nname = "six"\nversion = "1 --pre"\n\n[[package]]\nname = "ok"\nversion = "1"\n';
    expect(
      (await plan({ 'pyproject.toml': '[project]\ndependencies = ["ok"]', 'poetry.lock': lock }))!.changed[
        'constraints.txt'
      ],
    ).toBe('ok==1\n');
  });

  test('is not used beside requirements.txt', async () => {
    const files = { 'requirements.txt': 'six\n', 'pyproject.toml': '[project]\ndependencies = []', 'uv.lock': UV_LOCK };
    expect((await plan(files))!.changed).toEqual({});
  });

  test('of any size is read in proportion to it', async () => {
    const entry = '[[package]]\nname = "six"\nversion = "1"\ndependencies = [\n    { name = "six" },\n]\n';
    await plan({
      'pyproject.toml': '[project]\ndependencies = ["six"]',
      'uv.lock': `${entry.replace('version = "1"', 'source = { virtual = "." }')}${entry.repeat(50_000)}`,
    });
    await plan({
      'pyproject.toml': '[project]\ndependencies = ["six"]',
      'uv.lock': `[[package]]\n${'{ name = "'.repeat(100_000)}`,
    });
  });
});

describe('ranges of Poetry', () => {
  const requirementOf = async (version: string) =>
    (await plan({ 'pyproject.toml': `[tool.poetry.dependencies]\nsix = ${version}` }))!.changed['requirements.txt'];

  test.each([
    ['"*"', 'six'],
    ['"^1.2.3"', 'six>=1.2.3,<2'],
    ['"^0.2.3"', 'six>=0.2.3,<0.3'],
    ['"^0.0.3"', 'six>=0.0.3,<0.0.4'],
    ['"^0.0"', 'six>=0.0,<0.1'],
    ['"^0"', 'six>=0,<1'],
    ['"~1.2.3"', 'six>=1.2.3,<1.3'],
    ['"~1"', 'six>=1,<2'],
    ['"~=1.2"', 'six~=1.2'],
    ['"1.2.*"', 'six==1.2.*'],
    ['"1.2"', 'six==1.2'],
    ['">=1,<2,!=1.5"', 'six>=1,<2,!=1.5'],
    ['{version = "^1", python = ">=3.8,<4"}', 'six>=1,<2 ; python_full_version >= "3.8" and python_full_version < "4"'],
    ['[{version = "1", markers = "a"}, {version = "2", markers = "b"}]', 'six==1 ; (a)\nsix==2 ; (b)'],
  ])('%s', async (version, requirement) => {
    expect(await requirementOf(version)).toBe(`${requirement}\n`);
  });

  test.each(['"^1 || ^2"', '"latest"', '{version = "1", source = "private"}', '3', '{markers = "x\\n-r y"}'])(
    '%s is refused, with the name of the dependency',
    async (version) => {
      await expect(requirementOf(version)).rejects.toThrow(
        /six.* in \[tool.poetry.dependencies\], which pip cannot express/s,
      );
    },
  );
});

test('sources of uv in pyproject.toml are used, or refused', async () => {
  const project = (source: string) => ({
    'pyproject.toml': `[project]\ndependencies = ["My_Lib>=1"]\n[tool.uv.sources]\nmy-lib = ${source}`,
  });
  expect((await plan(project('{ path = "vendor/lib" }')))!.changed['requirements.txt']).toBe('./vendor/lib\n');
  await expect(plan(project('{ index = "private" }'))).rejects.toThrow(/a source for "My_Lib" in \[tool.uv.sources\]/);
  const git = await reportOf(project('{ git = "https://github.com/o/r" }'));
  await expect(checkDependencies(git, { environment: null }, [])).rejects.toThrow(
    /^pyproject.toml.*names a version control repository/,
  );
});

describe('package managers of Node', () => {
  const commandsOf = async (files: Readonly<Record<string, string>>) =>
    (await plan({ 'package.json': '{"dependencies":{"a":"1"}}', ...files }))!.steps
      .map(({ command }) => command)
      .join('\n');

  test('are chosen by the lock file', async () => {
    expect(await commandsOf({})).toContain('npm install ');
    expect(await commandsOf({ 'package-lock.json': '{}', 'yarn.lock': '' })).toContain('npm ci ');
    expect(await commandsOf({ 'pnpm-lock.yaml': "lockfileVersion: '9.0'" })).toMatch(
      /pnpm@9 install --prod .*--frozen-lockfile/,
    );
    expect(await commandsOf({ 'pnpm-lock.yaml': "lockfileVersion: '6.0'" })).toContain('pnpm@8 ');
    expect(await commandsOf({ 'yarn.lock': '# yarn lockfile v1' })).toMatch(
      /yarn@1 install --production .*--frozen-lockfile/,
    );
    const later = await commandsOf({ 'yarn.lock': '__metadata:\n  version: 8' });
    expect(later).toMatch(
      /YARN_NODE_LINKER=node-modules .*yarnpkg\/cli-dist@4\.\S+ workspaces focus --all --production/,
    );
  });

  test('get no lock file that disagrees with package.json', async () => {
    const packageJson = '{"dependencies":{"a":"1","agent-platform-sdk":"1"}}';
    const commands = await commandsOf({ 'package.json': packageJson, 'pnpm-lock.yaml': "lockfileVersion: '9.0'" });
    expect(commands).toContain('--no-frozen-lockfile');
  });

  test('install the members of a workspace whose root has no dependencies', async () => {
    expect(
      (await plan({ 'package.json': '{"workspaces":["packages/*"]}' }))!.steps.map(({ command }) => command).join('\n'),
    ).toContain('npm install ');
    expect(await plan({ 'package.json': '{"name":"x","workspaces":[]}' })).toBeUndefined();
  });
});
