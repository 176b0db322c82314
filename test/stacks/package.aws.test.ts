import { execFile, spawn, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { VERSION } from '#core/base/version.ts';
import { readArchive } from '#lib/archive.ts';
import { startAwsEmulators } from '#test/helpers/aws-emulators.ts';
import { type Resource, resourcesOf, TEST_ACCOUNT, TEST_REGION, type Template } from '#test/helpers/templates.ts';
import cdkJson from '../../examples/cdk/cdk.json' with { type: 'json' };
import example from '../../examples/cdk/package.json' with { type: 'json' };
import { fetchPythonCdk } from '../../scripts/fetch-test-tools.ts';
import { packAssembly } from '../../scripts/pack-assembly.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'platform-package-'));
const app = join(folder, 'app');
const out = join(folder, 'release');
const PACKAGE = 'agent-platform-cdk';
const tarball = join(out, `${PACKAGE}-${VERSION}.tgz`);
const installed = join(app, 'node_modules/agent-platform-cdk');
const bin = join(ROOT, 'node_modules/.bin');

const run = async (cwd: string, command: string, args: string[], env: Record<string, string> = {}) => {
  const { stdout } = await promisify(execFile)(command, args, {
    cwd,
    env: { PATH: `${bin}:${process.env.PATH}`, HOME: folder, ...env },
    maxBuffer: 64 * 1024 ** 2,
  });
  return stdout;
};

/**
 * Sets up the example with the package from `npm pack`. Other dependencies come from the repository, not the network.
 */
beforeAll(async () => {
  // With the user's settings of npm, which HOME hides below: the documentation in it is built with packages of the registry.
  const pack = [join(ROOT, 'scripts/release.ts'), 'pack', '--out', out, '--only', 'construct'];
  await promisify(execFile)(process.execPath, pack);
  cpSync(join(ROOT, 'examples/cdk'), app, { recursive: true });
  const manifest = {
    ...example,
    dependencies: { [PACKAGE]: `file:${tarball}` },
    devDependencies: {},
    overrides: { zod: `file:${join(ROOT, 'node_modules/zod')}` },
  };
  writeFileSync(join(app, 'package.json'), JSON.stringify(manifest));
  await run(app, 'npm', ['install', '--offline', '--legacy-peer-deps', '--no-audit', '--no-fund']);
  for (const name of ['aws-cdk-lib', 'constructs']) {
    symlinkSync(join(ROOT, 'node_modules', name), join(app, 'node_modules', name));
  }
}, 600_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the packed construct has everything that it deploys, and no more', async () => {
  const { artifacts } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'));
  expect(artifacts).toMatchObject([{ name: PACKAGE, version: VERSION, part: 'construct' }]);
  const files = (await run(folder, 'tar', ['-tzf', tarball])).trim().split('\n');
  expect(files).toEqual(
    expect.arrayContaining(
      [
        'LICENSE',
        'README.md',
        'package.json',
        'dist/platform.js',
        'dist/types/lib/platform.d.ts',
        'dist/types/lib/props.d.ts',
        'dist/deployed.zst',
        'dist/owner-key.mjs',
        'dist/workspace.mjs',
        'dist/writers.mjs',
        'dist/dashboard/index.html',
        'dist/runner/Dockerfile',
      ].map((file) => `package/${file}`),
    ),
  );
  const license = readFileSync(join(ROOT, 'LICENSE'), 'utf8');
  expect(readFileSync(join(installed, 'LICENSE'), 'utf8')).toBe(license);
  const deployed = readArchive(join(installed, 'dist/deployed.zst'));
  const archived = globSync('**/*', { cwd: deployed });
  expect(archived.filter((file) => /^functions\/[^/]+\/index\.mjs$/.test(file)).length).toBeGreaterThan(20);
  expect(archived.filter((file) => /^functions\/[^/]+\/index\.cjs\.map$/.test(file)).length).toBeGreaterThan(20);
  expect(archived).toContain('docs-site/index.html');
  expect([...files, ...archived].filter((file) => /\.test\.|\.(br|gz)$|\.vite/.test(file))).toEqual([]);
  // Paths of the machine that packs would get into source maps.
  for (const place of [installed, deployed]) {
    const grep = run(folder, 'grep', ['-rlF', '-e', `${ROOT.slice(1)}/`, place]);
    expect(await grep.catch(({ stdout }) => stdout)).toBe('');
  }
});

test('the packed construct is small, packed and installed', async () => {
  const paths = globSync('**/*', { cwd: installed }).map((file) => join(installed, file));
  const bytes = paths.map((path) => lstatSync(path)).filter((stat) => stat.isFile());
  expect(bytes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(40e6);
  expect(statSync(tarball).size).toBeLessThan(20e6);
});

test('the example app synthesises from the packed package', { timeout: 300_000 }, async () => {
  const outdir = join(folder, 'out');
  await run(app, 'node', ['app.ts'], { CDK_OUTDIR: outdir, CDK_CONTEXT_JSON: JSON.stringify(cdkJson.context) });
  const templates = globSync('**/*.template.json', { cwd: outdir });
  const names = templates.map((file) =>
    file
      .split('/')
      .at(-1)!
      .replace(/^prodagents|[A-Z0-9]{8}\.template\.json$/g, ''),
  );
  expect(names).toEqual(expect.arrayContaining(['data', 'schedules', 'api', 'compute', 'observability']));

  // Every function has its bundle, tasks their image, and CloudFront its pages.
  const assets = globSync('**/*.assets.json', { cwd: outdir }).flatMap((file) => {
    const { files } = JSON.parse(readFileSync(join(outdir, file), 'utf8'));
    return Object.values<{ source: { path: string } }>(files).map(({ source }) =>
      join(outdir, file, '..', source.path),
    );
  });
  const folders = assets.filter((path) => /asset\.[^.]+$/.test(path)).map((path) => readdirSync(path));
  expect(folders.filter((files) => files.includes('index.mjs')).length).toBeGreaterThan(20);
  expect(folders.filter((files) => files.includes('Dockerfile'))).toHaveLength(1);
  expect(folders.flat().filter((file) => /^(index\.html|index-[\w-]+\.(js|css))$/.test(file)).length).toBeGreaterThan(
    2,
  );
});

const synthesised = async (file: string): Promise<Template> => {
  const outdir = join(folder, file);
  await run(app, 'node', [file], { CDK_OUTDIR: outdir, CDK_CONTEXT_JSON: JSON.stringify(cdkJson.context) });
  const [template] = globSync('*.template.json', { cwd: outdir });
  return JSON.parse(readFileSync(join(outdir, template!), 'utf8'));
};

test('the pipeline of the example deploys to test, asks it for its health, and waits before prod', {
  timeout: 300_000,
}, async () => {
  const template = await synthesised('pipeline.ts');
  const [[, { Properties }]] = resourcesOf(template, 'AWS::CodePipeline::Pipeline') as [[string, Resource]];
  const stages: { Name: string; Actions: { Name: string }[] }[] = Properties.Stages;
  expect(stages.map(({ Name }) => Name)).toEqual(['Source', 'Build', 'UpdatePipeline', 'Assets', 'test', 'prod']);
  const actionsOf = (name: string) => stages.find(({ Name }) => Name === name)!.Actions.map(({ Name }) => Name);
  expect(actionsOf('test').at(-1)).toBe('Health');
  expect(actionsOf('prod')[0]).toBe('Release');
});

test('the workflow of the example takes a role that its environment alone may take', { timeout: 300_000 }, async () => {
  const template = await synthesised('github.ts');
  const [[, { Properties }]] = resourcesOf(template, 'AWS::IAM::Role') as [[string, Resource]];
  const { jobs, permissions } = parse(readFileSync(join(app, '.github/workflows/deploy.yml'), 'utf8'));
  const steps: { with?: Record<string, string> }[] = jobs.deploy.steps;
  expect(steps.map((step) => step.with?.['role-to-assume']).filter(Boolean)).toEqual([
    `arn:aws:iam::111122223333:role/${Properties.RoleName}`,
  ]);
  expect(permissions['id-token']).toBe('write');
  const [{ Action, Condition }] = Properties.AssumeRolePolicyDocument.Statement;
  expect(Action).toBe('sts:AssumeRoleWithWebIdentity');
  expect(Object.values(Condition.StringEquals)).toEqual([
    'sts.amazonaws.com',
    `repo:acme/agents-in-our-account:environment:${jobs.deploy.environment}`,
  ]);
  const { Statement } = Properties.Policies[0].PolicyDocument;
  expect(Statement.map(({ Action: action }: { Action: string }) => action)).toEqual(['sts:AssumeRole']);
});

test('its props have types', { timeout: 300_000 }, async () => {
  const types = { types: [], typeRoots: [] };
  const config = JSON.parse(readFileSync(join(app, 'tsconfig.json'), 'utf8'));
  const check = (name: string, source: string) => {
    writeFileSync(join(app, `${name}.ts`), source);
    const files = [`${name}.ts`];
    const compilerOptions = { ...config.compilerOptions, ...types };
    writeFileSync(join(app, `${name}.json`), JSON.stringify({ compilerOptions, files }));
    return run(app, 'tsc', ['-p', `${name}.json`]);
  };
  const source = readFileSync(join(app, 'app.ts'), 'utf8');
  await check('right', source);
  for (const file of ['pipeline', 'github']) await check(file, readFileSync(join(app, `${file}.ts`), 'utf8'));
  await expect(check('wrong', source.replace("kind: 'fargate'", "kind: 'cloud'"))).rejects.toThrow();
});

test('an editor shows what each prop and each handle is', { timeout: 120_000 }, async () => {
  const types = readFileSync(join(installed, 'dist/types/lib/props.d.ts'), 'utf8');
  const commentsIn = (text: string) => text.split('/**').length;
  expect(commentsIn(types)).toBe(commentsIn(readFileSync(join(ROOT, 'lib/props.ts'), 'utf8')));

  const source = readFileSync(join(app, 'app.ts'), 'utf8');
  const props = /(?<=new AgentPlatform\([^{]*\{\n)[\s\S]*?(?=\n\s*\}\))/.exec(source)![0];
  const names = [...props.matchAll(/(\w+): /g)].map(([, name]) => name!);
  expect(names).toEqual(
    expect.arrayContaining(['name', 'keepsData', 'throttle', 'requestsPerSecond', 'sandbox', 'kind']),
  );
  const handles = ['alarmTopic', 'apiRecordTarget', 'distribution', 'functions', 'tables'];
  const text = `${source}\nexport const handles = (platform: AgentPlatform) => [${handles.map((name) => `platform.${name}`).join()}];\n`;
  const shown = await hovers(join(app, 'hover.ts'), text, [...names, ...handles]);
  for (const [name, hover] of Object.entries(shown)) expect(hover, name).toMatch(/```\s+[A-Z`][\s\S]{15,}\./);
});

describe('the cloud assembly of the release', () => {
  const top = `agent-platform-assembly-${VERSION}`;
  const assembly = join(folder, top);
  const STACKS = ['data', 'schedules', 'api', 'compute', 'services', 'web', 'observability'];
  const listed = STACKS.map((name) => `platform/${name} (platform-prod-${name})`).join('\n');
  const cdk = (cwd: string, args: string[], path = '', env: Record<string, string> = {}) =>
    run(cwd, 'cdk', args, {
      ...env,
      PATH: `${path}:${bin}:${process.env.PATH}`,
      HOME: process.env.HOME!,
      CDK_DISABLE_TELEMETRY: '1',
    });
  /** A copy of an example with the assembly in it. */
  const example = (name: string) => {
    const copy = join(folder, name);
    // There may be one from a first try.
    rmSync(copy, { recursive: true, force: true });
    cpSync(join(ROOT, 'examples/deploy', name), copy, { recursive: true });
    symlinkSync(assembly, join(copy, 'assembly'));
    return copy;
  };

  beforeAll(async () => {
    const zip = join(folder, `${top}.zip`);
    packAssembly(join(installed, 'dist/synth.js'), join(folder, 'synthesised', top), zip);
    await run(folder, 'python3', ['-m', 'zipfile', '-e', zip, folder]);
    await run(folder, 'diff', ['-r', join(folder, 'synthesised', top), assembly]);
  }, 300_000);

  test('deploys to any account and Region, with every asset', { timeout: 120_000 }, async () => {
    expect((await cdk(folder, ['ls', '--app', assembly])).trim()).toBe(listed);
    const { artifacts } = JSON.parse(readFileSync(join(assembly, 'manifest.json'), 'utf8'));
    const stacks = Object.values<{ type: string; environment?: string }>(artifacts).filter(
      ({ type }) => type === 'aws:cloudformation:stack',
    );
    expect(new Set(stacks.map(({ environment }) => environment))).toEqual(
      new Set(['aws://unknown-account/unknown-region']),
    );
    for (const file of globSync('*.assets.json', { cwd: assembly })) {
      const { files, dockerImages } = JSON.parse(readFileSync(join(assembly, file), 'utf8'));
      expect(dockerImages).toEqual({});
      for (const { source } of Object.values<{ source: { path: string } }>(files)) {
        expect(existsSync(join(assembly, source.path)), source.path).toBe(true);
      }
    }
    const named = run(folder, 'grep', ['-rlF', '-e', `${ROOT.slice(1)}/`, '-e', folder, assembly]);
    expect(await named.catch(({ stdout }) => stdout)).toBe('');
    expect(readFileSync(join(assembly, 'LICENSE'), 'utf8')).toBe(readFileSync(join(ROOT, 'LICENSE'), 'utf8'));
  });

  test('has its assets published to the account by the command line of the CDK', { timeout: 300_000 }, async () => {
    const { endpoints, stop } = await startAwsEmulators();
    onTestFinished(stop);
    const bucket = `${endpoints.moto}/cdk-hnb659fds-assets-${TEST_ACCOUNT}-${TEST_REGION}`;
    const signed = (service: string) => ({
      authorization: `AWS4-HMAC-SHA256 Credential=test/20260101/${TEST_REGION}/${service}/aws4_request, SignedHeaders=host, Signature=0`,
    });
    // What `cdk bootstrap` makes.
    await fetch(bucket, { method: 'PUT' });
    await fetch(endpoints.moto, {
      method: 'POST',
      headers: {
        ...signed('ssm'),
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'AmazonSSM.PutParameter',
      },
      body: JSON.stringify({ Name: '/cdk-bootstrap/hnb659fds/version', Value: '30', Type: 'String' }),
    });
    const env = {
      AWS_ENDPOINT_URL: endpoints.moto,
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
      AWS_REGION: TEST_REGION,
    };
    await cdk(folder, ['publish-assets', '--unstable=publish-assets', '--app', assembly, '--all'], '', env);
    const keys = globSync('*.assets.json', { cwd: assembly }).flatMap((file) => {
      const { files } = JSON.parse(readFileSync(join(assembly, file), 'utf8'));
      return Object.values<{ destinations: Record<string, { objectKey: string }> }>(files).flatMap(({ destinations }) =>
        Object.values(destinations).map(({ objectKey }) => objectKey),
      );
    });
    expect(keys.length).toBeGreaterThan(40);
    for (const key of keys) {
      expect((await fetch(`${bucket}/${key}`, { method: 'HEAD', headers: signed('s3') })).status, key).toBe(200);
    }
  });

  test('is made anew with other props by the command of the package, which names wrong ones', {
    timeout: 120_000,
  }, async () => {
    const synth = join(installed, 'dist/synth.js');
    const props = JSON.parse(readFileSync(join(assembly, 'platform.json'), 'utf8'));
    const file = join(folder, 'platform.json');
    const own = {
      ...props,
      name: 'own',
      web: { kind: 'off' },
      permissionsBoundary: 'Boundary',
      bootstrapQualifier: 'acme',
    };
    writeFileSync(file, JSON.stringify(own));
    const names = await run(app, 'node', [synth, file, join(folder, 'own')]);
    expect(names.trim().split('\n')).toEqual(
      STACKS.filter((name) => name !== 'web').map((name) => `platform-own-${name}`),
    );
    const written = readFileSync(join(folder, 'own/manifest.json'), 'utf8');
    expect(written).toContain('cdk-acme-assets');
    const roles = globSync('*.template.json', { cwd: join(folder, 'own') }).flatMap((name) =>
      resourcesOf(JSON.parse(readFileSync(join(folder, 'own', name), 'utf8')), 'AWS::IAM::Role'),
    );
    for (const [, { Properties }] of roles) {
      expect(JSON.stringify(Properties.PermissionsBoundary)).toContain('policy/Boundary');
    }
    writeFileSync(file, JSON.stringify({ ...props, throttle: 5 }));
    await expect(run(app, 'node', [synth, file, join(folder, 'wrong')])).rejects.toThrow(
      /"prod" is invalid[\s\S]*throttle/,
    );
    await expect(run(app, 'node', [synth])).rejects.toThrow('Name the file with the props');
  });

  test('is part of an app in Python', { timeout: 300_000 }, async () => {
    const stacks = await cdk(example('python'), ['ls'], fetchPythonCdk());
    expect(stacks.trim()).toBe(`own\n${listed}`);
  });

  test('is part of an app in Java', { timeout: 300_000 }, async () => {
    const stacks = await cdk(example('java'), ['ls']);
    expect(stacks.trim()).toMatch(new RegExp(`own\n${listed.replaceAll(/[()]/g, '\\$&')}$`));
  });

  const hasTerraform = spawnSync('terraform', ['version'], { stdio: 'ignore' }).status === 0;
  test.skipIf(!hasTerraform)(
    `is deployed by Terraform, again only if it changes${hasTerraform ? '' : ' (not tried: no Terraform)'}`,
    { timeout: 120_000 },
    async () => {
      const module = example('terraform');
      const calls = join(module, 'calls');
      const programs = join(module, 'bin');
      mkdirSync(programs);
      // In place of the CDK, which would ask AWS.
      writeFileSync(join(programs, 'npx'), `#!/bin/sh\necho "$AWS_REGION $*" >> ${calls}\n`, { mode: 0o755 });
      const terraform = (...args: string[]) =>
        run(module, 'terraform', args, { PATH: `${programs}:${process.env.PATH}` });
      await terraform('fmt', '-check');
      await terraform('init');
      await terraform('validate');
      const apply = () => terraform('apply', '-auto-approve', '-no-color', '-var', 'region=eu-west-1');
      expect(await apply()).toContain('1 added');
      expect(await apply()).toContain('0 added');
      const command = 'eu-west-1 --yes aws-cdk@2 deploy --app assembly --all --require-approval never\n';
      expect(readFileSync(calls, 'utf8')).toBe(command);
      const stacks = JSON.parse(await terraform('output', '-json', 'stacks'));
      expect(stacks.sort()).toEqual(STACKS.map((name) => `platform-prod-${name}`).sort());

      rmSync(join(module, 'assembly'));
      symlinkSync(join(folder, 'own'), join(module, 'assembly'));
      await apply();
      expect(readFileSync(calls, 'utf8')).toBe(command.repeat(2));
    },
  );
});

/** Returns what the language server shows at the first place of each name after the import of the construct. */
async function hovers(path: string, text: string, names: readonly string[]): Promise<Record<string, string>> {
  writeFileSync(path, text);
  const server = spawn(join(bin, 'tsc'), ['--lsp', '--stdio'], { cwd: app });
  const send = (message: object) => {
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    server.stdin.write(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  };
  const uri = pathToFileURL(path).href;
  const shown: Record<string, string> = {};
  let unread = Buffer.alloc(0);
  try {
    send({
      id: -1,
      method: 'initialize',
      params: {
        processId: null,
        rootUri: null,
        capabilities: { textDocument: { hover: { contentFormat: ['markdown'] } } },
      },
    });
    for await (const chunk of server.stdout) {
      unread = Buffer.concat([unread, chunk]);
      for (;;) {
        const [head, length] = /^Content-Length: (\d+)\r\n(?:.*\r\n)*?\r\n/.exec(unread.toString('latin1')) ?? [];
        if (head === undefined || unread.length < head.length + Number(length)) break;
        const message = JSON.parse(unread.toString('utf8', head.length, head.length + Number(length)));
        unread = unread.subarray(head.length + Number(length));
        if (message.method !== undefined && message.id !== undefined) send({ id: message.id, result: null });
        else if (message.id === -1) {
          send({ method: 'initialized', params: {} });
          send({
            method: 'textDocument/didOpen',
            params: { textDocument: { uri, languageId: 'typescript', version: 1, text } },
          });
          for (const [id, name] of names.entries()) {
            const before = text.slice(0, text.search(new RegExp(`(?<=[{.\\s])${name}(?=: |[,\\]])`))).split('\n');
            const position = { line: before.length - 1, character: before.at(-1)!.length };
            send({ id, method: 'textDocument/hover', params: { textDocument: { uri }, position } });
          }
        } else if (message.id !== undefined) {
          shown[names[message.id]!] = message.result?.contents?.value ?? '';
          if (Object.keys(shown).length === new Set(names).size) return shown;
        }
      }
    }
    return shown;
  } finally {
    server.kill();
  }
}

test('wrong props are named', async () => {
  const script = `
    const { App } = require('aws-cdk-lib');
    const { AgentPlatform } = require('${PACKAGE}');
    new AgentPlatform(new App(), 'agents', { name: 'Prod!', keepsData: 'yes', color: 'red' });`;
  await expect(run(app, 'node', ['-e', script])).rejects.toThrow(
    /platform "Prod!" is invalid:[\s\S]*color[\s\S]*must be 1 to 12 lower-case letters[\s\S]*keepsData/,
  );
});

test.each(['owner-key', 'writers'])('its command %s works on a platform by its name', async (name) => {
  const command = join(installed, `dist/${name}.mjs`);
  await expect(run(app, 'node', [command])).rejects.toThrow('Name the platform as the names of its stacks begin');
});
