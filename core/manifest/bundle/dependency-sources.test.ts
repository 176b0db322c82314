import { describe, expect, test } from 'vitest';
import { zip } from '#test/helpers/zip.ts';
import { inspectBundle } from './bundle.ts';
import { checkDependencies } from './check-dependencies.ts';

const REGISTRIES = ['registry.npmjs.org', 'pypi.org', 'files.pythonhosted.org', 'mirror.example:8443'];

/** Returns the warnings or the error of the check of a bundle with these files. */
async function check(files: Readonly<Record<string, string>>, environment: object | null = null): Promise<string[]> {
  const bundle = await inspectBundle(zip(Object.entries(files).map(([name, content]) => ({ name, content }))));
  return checkDependencies(bundle, { environment } as never, REGISTRIES);
}
const requirements = (text: string) => check({ 'requirements.txt': text });
const packages = (file: object | string, lock?: object) =>
  check({
    'package.json': typeof file === 'string' ? file : JSON.stringify(file),
    ...(lock && { 'package-lock.json': JSON.stringify(lock, null, 1) }),
  });

describe('requirements.txt', () => {
  test.each([
    ['git', 'six\ngit+https://github.com/o/r.git@main', 'line 2: names a version control repository'],
    ['git by name', '# one\n\npkg @ git+ssh://git@github.com/o/r', 'line 3: names a version control repository'],
    ['git in place', '-e git+https://github.com/o/r#egg=r', 'line 1: names a version control repository'],
    ['another index', '--index-url https://token@index.example/simple\nsix', 'line 1: .*"index.example"'],
    ['an extra index', 'six\n--extra-index-url=https://index.example:81/simple', 'line 2: .*"index.example:81"'],
    ['a short index', '-i http://pypi.org/simple', 'line 1: .*"pypi.org"'],
    ['a page of links', '-fhttps://links.example/x', 'line 1: .*"links.example"'],
    ['an address', 'six\\\n  ==1\nhttps://files.example/x-1.whl ; python_version > "3"', 'line 3: .*"files.example"'],
    ['an address by name', 'x @ https://files.example/x.whl --hash=sha256:00', 'line 1: .*"files.example"'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: pip replaces it.
    ['a variable', '--index-url ${INDEX}://x/y', 'line 1: names an address'],
    ['an absolute path', '/opt/x', 'line 1: names the path "/opt/x"'],
    ['a path out', './a/../../x[extra]', 'line 1: names the path'],
    ['a home', '-e ~/x', 'line 1: names the path'],
    ['a file address', 'x @ file:///opt/x', 'line 1: names the path "/opt/x"'],
    ['requirements elsewhere', '-r ../base.txt', 'line 1: names the path "../base.txt"'],
  ])('with %s is refused', async (_, text, message) => {
    await expect(requirements(text)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringMatching(new RegExp(`^requirements.txt, ${message}`)),
      extra: { hint: expect.stringContaining('"./vendor/name"') },
    });
    await expect(requirements(text)).rejects.not.toThrow(/token|simple/);
  });

  test.each([
    ['releases', 'six==1.17.0\nrequests[socks]>=2,<3 ; python_version > "3" # https://x.example\n'],
    ['comments', '# -i https://x.example\n'],
    ['the registry', '--index-url https://pypi.org/simple\n--extra-index-url https://mirror.example:8443/simple\nx'],
    ['files of the registry', 'x @ https://files.pythonhosted.org/packages/x-1.whl'],
    ['paths in the bundle', './vendor/x\n-e ./y\nvendor/z.whl\n-f ./wheels\nfile:./w\nv @ file:///home/user/agent/v'],
    ['hashes', 'x==1 \\\n --hash=sha256:00 \\\n --hash=sha256:11\n'],
    ['our own package as pip freeze names it', 'agent-platform-sdk @ file:///opt/platform/sdk/python\n'],
  ])('with %s is accepted', async (_, text) => {
    expect(await requirements(text)).toEqual([]);
  });

  test('is followed to the files that it names', async () => {
    const files = {
      'requirements.txt': '-r more/base.txt',
      'more/base.txt': '-c c.txt\n-r base.txt',
      'more/c.txt': 'x',
    };
    expect(await check(files)).toEqual([]);
    const wrong = check({ ...files, 'more/c.txt': 'x\n-i https://index.example' });
    await expect(wrong).rejects.toThrow('more/c.txt, line 2: names an address of "index.example"');
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, n) => [`r${n}.txt`, `-r r${n + 1}.txt`]));
    await expect(check({ ...many, 'requirements.txt': '-r r0.txt' })).rejects.toThrow('more than 1 MB or 20 files');
  });
});

describe('package.json', () => {
  test.each([
    ['git+https://github.com/o/r.git', 'names a version control repository'],
    ['git://github.com/o/r.git', 'names a version control repository'],
    ['git@github.com:o/r.git', 'names a version control repository'],
    ['github:o/r', 'names a version control repository'],
    ['o/r#main', 'names a version control repository'],
    ['https://files.example/x.tgz', 'names an address of "files.example"'],
    ['file:../x', 'names the path "../x"'],
    ['/opt/x', 'names the path "/opt/x"'],
  ])('with the dependency %s is refused', async (wanted, message) => {
    const text = JSON.stringify({ name: 'a', dependencies: { b: '^1.0.0', x: wanted } }, null, 2);
    await expect(packages(text)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(`package.json, line 5, "x": ${message}`),
    });
    await expect(packages({ devDependencies: { x: wanted } })).rejects.toThrow(message);
    await expect(packages({ overrides: { a: { x: wanted } } })).rejects.toThrow(message);
  });

  test('with releases, names for releases, and packages of the bundle is accepted', async () => {
    const dependencies = { a: '^1', b: 'npm:@s/b@2', c: 'latest', d: 'file:./d', e: './e', f: '1 - 2', g: '' };
    expect(await packages({ dependencies, overrides: { h: '$a' } })).toEqual([]);
    expect(await packages({ dependencies: { x: 'https://registry.npmjs.org/x/-/x-1.tgz' } })).toEqual([]);
    expect(await packages({ dependencies: { 'agent-platform-sdk': 'file:../platform/sdk/js' } })).toEqual([]);
    expect(await packages('{')).toEqual([]);
  });

  test('and its lock file: what is installed counts', async () => {
    const entry = (resolved: string, more = {}) => ({ packages: { '': {}, 'node_modules/x': { resolved, ...more } } });
    const git = 'git+ssh://git@github.com/o/r.git#abc';
    const other = 'https://npm.example/x/-/x-1.tgz';
    await expect(packages({}, entry(git))).rejects.toThrow(
      /^package-lock.json, line \d, "node_modules\/x": names a version control rep/,
    );
    await expect(packages({}, entry(other))).rejects.toThrow('an address of "npm.example"');
    const old = {
      lockfileVersion: 1,
      dependencies: { a: { version: '1.0.0', dependencies: { x: { version: git } } } },
    };
    await expect(packages({}, old)).rejects.toThrow('"x": names a version control repository');
    expect(await packages({ devDependencies: { x: git } }, entry(git, { dev: true }))).toEqual([]);
    expect(await packages({}, entry('https://registry.npmjs.org/x/-/x-1.tgz'))).toEqual([]);
  });

  test.each([
    ['pnpm-lock.yaml', '    resolution: {integrity: sha512-a, tarball: https://npm.example/x-1.tgz}', '"npm.example"'],
    ['pnpm-lock.yaml', '    resolution: {commit: abc, repo: https://git.example/x.git, type: git}', '"git.example"'],
    ['yarn.lock', '  resolved "https://npm.example/x/-/x-1.tgz#abc"', '"npm.example"'],
    ['yarn.lock', '  resolved "git+ssh://git@git.example/x.git#abc"', 'version control repository'],
    ['yarn.lock', '  resolution: "@s/x@https://npm.example/x-1.tgz"', '"npm.example"'],
    ['yarn.lock', '  resolution: "x@git@git.example:o/x.git#commit=abc"', 'version control repository'],
  ])('and the lock file %s with %s', async (file, line, message) => {
    const files = { 'package.json': '{"dependencies":{"x":"1"}}', [file]: `a:\n${line}\n` };
    await expect(check(files)).rejects.toThrow(`${file}, line 2: names`);
    await expect(check(files)).rejects.toThrow(message);
    // npm's own lock file comes first.
    expect(await check({ ...files, 'package-lock.json': '{}' })).toEqual([]);
  });

  test('and lock files of pnpm and Yarn with releases are accepted', async () => {
    const resolved = '  resolved "https://registry.yarnpkg.com/x/-/x-1.tgz#abc"';
    const lines = [
      resolved,
      '  resolution: "x@npm:1"',
      '  resolution: "x@patch:x@npm%3A1#a"',
      '  resolution: "x@workspace:."',
    ];
    for (const line of [...lines, '    resolution: {tarball: https://registry.npmjs.org/x/-/x-1.tgz}'])
      for (const file of ['yarn.lock', 'pnpm-lock.yaml'])
        expect(await check({ 'package.json': '{}', [file]: line }), line).toEqual([]);
  });

  test('and other registries in .npmrc and in flags of the manifest', async () => {
    const npmrc = (text: string) => check({ 'package.json': '{}', '.npmrc': text });
    await expect(npmrc('a=b\n@acme:registry=https://npm.example/')).rejects.toThrow(
      /^\.npmrc, line 2: .*"npm.example"/,
    );
    expect(await npmrc('registry=https://registry.npmjs.org/')).toEqual([]);
    const flags = check({ 'main.py': '' }, { pip_flags: '--extra-index-url=https://index.example/x' });
    await expect(flags).rejects.toThrow(/^environment.pip_flags of the manifest: .*"index.example"/);
  });
});

describe('pyproject.toml', () => {
  const project = (text: string, more = {}) => check({ 'pyproject.toml': text, ...more });

  test('that names repositories is refused', async () => {
    const text = '[project]\ndependencies = [\n  "six",\n  "x @ git+https://github.com/o/r",\n]';
    await expect(project(text)).rejects.toThrow(/^pyproject.toml, line 4: names a version control repository/);
  });

  test.each([
    ['is no TOML', '[project\n', /^pyproject.toml is not valid TOML in line 1: /],
    ['has no array', '[project]\ndependencies = "six"', /not an array of texts/],
    ['has no texts', '[project]\ndependencies = [1]', /1 as project.dependencies\[0\], which is not a requirement/],
    ['has an option', '[project]\ndependencies = ["six", "-r x"]', /"-r x" as project.dependencies\[1\]/],
    ['has line ends', '[project]\ndependencies = ["six\\n-r x"]', /project.dependencies\[0\]/],
    ['is nested too deeply', `a=${'['.repeat(20_000)}`, /not valid TOML/],
    ['is too large', '#'.repeat(65 * 1024), /larger than 64 KB/],
  ])('that %s is refused', async (_, text, message) => {
    await expect(project(text)).rejects.toThrow(message);
    await expect(project(text)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    expect(await project(text, { 'requirements.txt': 'six' })).toEqual([]);
  });

  test('with a dynamic list is warned about', async () => {
    const text = '[project]\ndynamic = ["version", "dependencies"]';
    expect(await project(text)).toEqual([expect.stringContaining('dynamic')]);
    expect(await project(text, { 'requirements.txt': 'six' })).toEqual([]);
  });

  test('beside requirements.txt is warned about where it names dependencies', async () => {
    const more = { 'requirements.txt': 'six' };
    expect(await project('[project]\ndependencies = ["six"]', more)).toEqual([
      expect.stringContaining('Only the dependencies of requirements.txt are installed'),
    ]);
    expect(await project('[tool.ruff]\nline-length = 100', more)).toEqual([]);
    expect(await project('[tool.poetry.dependencies]\npython = "^3"')).toEqual([]);
  });
});

/** Number of characters. Re-reading such a file for each of its lines or words would take many minutes. */
const N = 1_000_000;

test.each([
  ['spaces', `x${' '.repeat(N)}y`],
  ['words', 'a:'.repeat(N / 2)],
  ['a word', 'x'.repeat(N)],
  ['joined lines', 'x\\\n'.repeat(N / 4)],
  ['comments', '#\n'.repeat(N / 2)],
  ['hashes', ' #'.repeat(N / 2)],
])('a file with many %s is read in proportion to its size', async (_, text) => {
  await requirements(text);
});

// Searching the file for the line of each package would take many minutes.
test('a lock file with many packages is read in proportion to its size', async () => {
  const entries = Array.from({ length: 100_000 }, (_, n) => [
    `node_modules/${n}`,
    { resolved: `https://pypi.org/${n}` },
  ]);
  const lock = { packages: Object.fromEntries(entries) };
  await packages({}, lock);
});
