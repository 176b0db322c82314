import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { PROJECTS } from '#test/cli/framework-projects.ts';
import { agentFiles } from './agent-files.ts';
import { chooseEntry, chooseFramework, entryText } from './find-framework.ts';
import { FRAMEWORKS } from './frameworks.ts';
import { readProject } from './project.ts';

function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'platform-from-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

/** Returns what `platform init --from` would write. */
async function adapted(files: Readonly<Record<string, string>>, framework?: string, entry?: string) {
  const project = await readProject(folderOf(files));
  const found = chooseFramework(project, framework);
  const start = chooseEntry(project, found, entry);
  const { files: written, notes } = agentFiles(project, found.framework, start, 'my-agent');
  return { ...found, entry: entryText(start), written, notes, manifest: JSON.parse(written['agent.json']!) };
}

test('every framework has a project that shows it', () => {
  expect(Object.keys(PROJECTS).sort()).toEqual(FRAMEWORKS.map(({ name }) => name).sort());
});

describe.each(Object.entries(PROJECTS))('%s', (name, { files, entry, command }) => {
  test('is found by its dependencies and imports, with its entry point', async () => {
    const found = await adapted(files);
    expect(found.framework.name).toBe(name);
    expect(found.entry).toBe(entry);
    expect(found.manifest).toMatchObject({ name: 'my-agent', type: 'tool', runtime: { command } });
    expect(found.places[0]).toMatch(/^(?:requirements\.txt|pyproject\.toml|package\.json):\d+$/);
    for (const path of Object.keys(found.written)) expect(files[path], path).toBeUndefined();
    // A service is deployed, a program is called.
    const test = Object.keys(found.written).filter((path) => /^test_|\.test\.|^tests\//.test(path));
    expect(test).toHaveLength(1);
    expect(found.written['sample-input.json'] === undefined).toBe(found.manifest.run_mode === 'always_on');
  });
});

describe('several', () => {
  const fastapiToo = {
    ...PROJECTS.langgraph!.files,
    ...PROJECTS.fastapi!.files,
    'requirements.txt': 'langgraph\nfastapi\n',
  };

  test('frameworks are refused by their names and places, and --framework chooses', async () => {
    const error = await adapted(fastapiToo).catch((thrown) => thrown);
    expect(error.message).toContain(
      'Found: langgraph (requirements.txt:1, graph.py:3); fastapi (requirements.txt:2, app/main.py:1).',
    );
    expect(error.hint).toBe('Choose one, such as --framework langgraph.');
    expect((await adapted(fastapiToo, 'fastapi')).entry).toBe('app/main.py:app');
    await expect(adapted(fastapiToo, 'flask')).rejects.toThrow('neither declares nor imports Flask. Found: langgraph');
    await expect(adapted(fastapiToo, 'flusk')).rejects.toThrow('Unknown framework "flusk": choose from langgraph,');
  });

  test('frameworks of which one has an entry point are that one', async () => {
    const { framework } = await adapted({ ...PROJECTS.flask!.files, 'requirements.txt': 'flask\nfastapi\n' });
    expect(framework.name).toBe('flask');
  });

  test('frameworks of which one uses the others are that one', async () => {
    const files = { ...PROJECTS['ai-sdk']!.files, ...PROJECTS.nextjs!.files };
    const dependencies = { next: '16', ai: '7', '@ai-sdk/openai': '4' };
    expect((await adapted({ ...files, 'package.json': JSON.stringify({ dependencies }) })).framework.name).toBe(
      'nextjs',
    );
  });

  test('entry points are refused by their names, and --entry chooses', async () => {
    const agent = 'from agents import Agent\n\nfirst = Agent(name="a")\nsecond = Agent(name="b")\n';
    const files = { 'requirements.txt': 'openai-agents\n', 'team.py': agent };
    const error = await adapted(files).catch((thrown) => thrown);
    expect(error.message).toBe('OpenAI Agents has several entry points: team.py:first, team.py:second.');
    expect(error.hint).toBe('Choose one, such as --entry team.py:first.');
    const { written } = await adapted(files, undefined, 'team.py:second');
    expect(written['platform_main.py']).toContain('from team import second as entry');
    await expect(adapted(files, undefined, 'none.py:agent')).rejects.toThrow('the project has no file none.py');
  });

  test('entry points of which one has the usual name are that one', async () => {
    const agent = 'from agents import Agent\n\nhelper = Agent(name="a")\nagent = Agent(name="b")\n';
    expect((await adapted({ 'requirements.txt': 'openai-agents\n', 'team.py': agent })).entry).toBe('team.py:agent');
  });
});

test('a factory whose parameters have defaults is an entry point', async () => {
  const factory = (parameters: string) => ({
    'requirements.txt': 'flask\n',
    'blog/__init__.py': `from flask import Flask\n\n\ndef create_app(${parameters}):\n    app = Flask(__name__)\n    if (app):\n        return app\n`,
  });
  for (const parameters of [
    'test_config=None',
    '*, config: dict[str, str] | None = None, path=Path(),',
    '\n    a=1,\n',
  ]) {
    const { manifest } = await adapted(factory(parameters));
    expect(manifest.runtime.command).toContain("--app 'blog/__init__.py:create_app()'");
  }
  await expect(adapted(factory('config, path=None'))).rejects.toThrow('no entry point');
});

test('a page of Streamlit that others import is none of its own', async () => {
  const page = 'import streamlit as st\n\nst.title("Hello")\n';
  const files = { 'requirements.txt': 'streamlit\n', 'Hello.py': page, 'utils.py': page };
  await expect(adapted(files)).rejects.toThrow('several entry points: Hello.py, utils.py');
  const demo = `${page}from utils import show_code\n`;
  expect((await adapted({ ...files, 'pages/demo.py': demo })).entry).toBe('Hello.py');
});

test('the root agent of the Agent Development Kit is found beside those that it calls', async () => {
  const agent = 'from google.adk.agents import Agent\n\nhelper = Agent(name="a")\nroot_agent = helper\n';
  const files = { 'requirements.txt': 'google-adk\n', 'team/agent.py': agent, 'team/sub_agents/one/agent.py': agent };
  expect((await adapted(files)).entry).toBe('team/agent.py:root_agent');
});

describe('a project', () => {
  test('without a framework is refused with what was looked for', async () => {
    const error = await adapted({ 'main.py': 'print(1)\n', 'requirements.txt': 'requests\n' }).catch(
      (thrown) => thrown,
    );
    expect(error.message).toContain('has no framework that init knows: LangGraph, ');
    expect(error.hint).toContain('--template');
  });

  test.each(FRAMEWORKS)('of $name without an entry point is refused with an example', async (framework) => {
    const [name] = framework.packages;
    const files: Record<string, string> =
      framework.language === 'python'
        ? { 'requirements.txt': `${name}\n` }
        : { 'package.json': JSON.stringify({ dependencies: { [name!]: '1' } }) };
    const error = await adapted(files).catch((thrown) => thrown);
    expect(error.message).toBe(`${framework.title} was found, but no entry point: ${framework.example}`);
    expect(error.hint).toBe('Name it with --entry FILE:NAME.');
  });

  test('without requirements gets those of the framework that it imports', async () => {
    const { places, written } = await adapted({ 'app.py': PROJECTS.flask!.files['hello.py']! });
    expect(places).toEqual(['app.py:1']);
    expect(written['requirements.txt']).toBe('flask\n');
  });

  test.each([
    ['package.json', '{ "dependencies": ', 'package.json is not valid JSON: '],
    ['package.json', '[]', 'package.json must hold a JSON object'],
    ['pyproject.toml', '[project\nname = "x"', 'pyproject.toml is not valid TOML in line 1'],
    ['pyproject.toml', '[project]\ndependencies = "flask"', 'project.dependencies that are not an array'],
  ])('with a broken %s is refused: %s', async (file, text, message) => {
    await expect(adapted({ [file]: text, 'hello.py': 'import flask\n' })).rejects.toThrow(message);
  });

  test.each(['langgraph.json', '.actor/actor.json'])('with a broken %s is refused', async (file) => {
    const { files } = PROJECTS[file === 'langgraph.json' ? 'langgraph' : 'apify']!;
    await expect(adapted({ ...files, [file]: '{' })).rejects.toThrow(`${file} is not valid JSON`);
  });

  test('with unusual values in package.json is read as far as it goes', async () => {
    const text = JSON.stringify({ scripts: { start: 1 }, dependencies: null, devDependencies: [] });
    await expect(adapted({ 'package.json': text })).rejects.toThrow('has no framework');
  });

  test('with a folder in place of a file is refused', async () => {
    await expect(adapted({ 'requirements.txt/x': '' })).rejects.toThrow('requirements.txt cannot be read: EISDIR');
  });

  test('reads requirements that another file names, but none outside of it', async () => {
    const files = {
      'requirements.txt': '-r base.txt\n-r ../outside.txt\n-r requirements.txt\n--hash=x\n# langgraph\n',
      'base.txt': 'Flask[async] >= 3 # web\n',
      'app.py': 'from flask import Flask\n\napp = Flask(__name__)\n',
    };
    expect((await adapted(files)).places).toEqual(['base.txt:1', 'app.py:1']);
  });

  test('does not follow links', async () => {
    const outside = folderOf({ 'graph.py': PROJECTS.langgraph!.files['graph.py']!, 'requirements.txt': 'langgraph\n' });
    const folder = folderOf({});
    symlinkSync(outside, join(folder, 'linked'));
    symlinkSync(join(outside, 'graph.py'), join(folder, 'graph.py'));
    expect((await readProject(folder)).sources).toEqual([]);
    symlinkSync(join(outside, 'requirements.txt'), join(folder, 'requirements.txt'));
    await expect(readProject(folder)).rejects.toThrow('requirements.txt is a link, which a publish leaves out');
  });

  test.each(['a b.py', 'x;touch y.py', '$(x).py', 'a"""b.py', 'a\nb.py', '-c.py'])(
    'whose entry point is named %j is refused, because the name stands in a shell line',
    async (file) => {
      const app = PROJECTS.flask!.files['hello.py']!;
      const error = await adapted({ 'requirements.txt': 'flask\n', [file]: app }).catch((thrown) => thrown);
      expect(error.message).toContain(`The entry point ${JSON.stringify(file)} has a name with special characters`);
    },
  );

  test('with too many files is refused', async () => {
    const folder = folderOf({ 'a/1.py': '', 'a/2.py': '', 'b/3.py': '' });
    expect((await readProject(folder, 5)).sources).toHaveLength(3);
    await expect(readProject(folder, 4)).rejects.toThrow('more than 4 files and folders, too many for one project');
  });

  test('is read without tests, hidden files, packages, what git ignores, and large files', async () => {
    const code = 'import flask\n';
    const folder = folderOf({
      ...{ 'app.py': code, 'test_app.py': code, 'tests/app.py': code, '.venv/app.py': code, 'venv/app.py': code },
      ...{ 'node_modules/x/index.js': code, '.gitignore': 'own/\n', 'own/app.py': code },
      'large.py': code + '#'.repeat(600 * 1024),
    });
    expect((await readProject(folder)).sources.map(({ path }) => path)).toEqual(['app.py']);
  });

  test('that does not exist is refused', async () => {
    await expect(readProject('/nonexistent')).rejects.toThrow('/nonexistent does not exist');
  });
});

describe('what is written', () => {
  test('requires what langgraph.json declares in place of requirements', async () => {
    const files = {
      'langgraph.json': JSON.stringify({
        dependencies: ['./team', 'langchain_openai', './other', '.', '../x'],
        graphs: { agent: './team/agent.py:graph' },
      }),
      'team/agent.py': PROJECTS.langgraph!.files['graph.py']!,
      'team/requirements.txt': 'langgraph\n',
      'other/pyproject.toml': '[project]\nname = "other"\n',
    };
    expect((await adapted(files)).written['requirements.txt']).toBe(
      '-r team/requirements.txt\nlangchain_openai\n./other\n',
    );
    const only = { ...files, 'langgraph.json': JSON.stringify({ graphs: { agent: './team/agent.py:graph' } }) };
    expect((await adapted(only)).written['requirements.txt']).toBe('langgraph\n');
  });

  test('declares the secrets that the code reads, and the providers whose models it names', async () => {
    const code = 'import os\nos.environ["TAVILY_API_KEY"]\nos.environ.get("DEBUG")\n';
    const { manifest, notes } = await adapted({ ...PROJECTS.adk!.files, 'tools.py': code });
    expect(manifest).toMatchObject({ optional_secrets: ['TAVILY_API_KEY'], supported_providers: ['gemini'] });
    expect(notes).toEqual([expect.stringContaining('platform secrets set TAVILY_API_KEY')]);
  });

  test('warns of a script that calls the model while it is imported', async () => {
    const { files } = PROJECTS['openai-agents']!;
    const text = files['main.py']!.replace('if __name__ == "__main__":\n    ', '');
    expect((await adapted({ ...files, 'main.py': text })).notes.join()).toMatch(/^main\.py, line 12, runs each time/);
    expect((await adapted(files)).notes).toEqual([]);
  });

  test('warns of an app that listens on a port of its own, and of a missing server', async () => {
    const { files } = PROJECTS.express!;
    const text = files['server.js']!.replace('process.env.PORT || 8000', '8000');
    expect((await adapted({ ...files, 'server.js': text })).notes.join()).toContain('server.js listens on port 8000.');
    const bare = await adapted({ ...PROJECTS.fastapi!.files, 'requirements.txt': 'fastapi\n' });
    expect(bare.notes.join()).toContain('add uvicorn');
    const standard = await adapted({ ...PROJECTS.fastapi!.files, 'requirements.txt': 'fastapi[standard]\n' });
    expect(standard.notes).toEqual([]);
  });

  test('imports modules of a source folder, of packages, and of folders with other names', async () => {
    const graph = PROJECTS.langgraph!.files['graph.py']!;
    const adapter = async (files: Record<string, string>) =>
      (await adapted({ 'requirements.txt': 'langgraph\n', ...files })).written['platform_main.py']!;
    expect(await adapter({ 'src/own/graph.py': graph })).toContain('from own.graph import graph as entry');
    expect(await adapter({ 'own/__init__.py': '', 'own/graph.py': graph })).toContain('from own.graph import graph');
    const odd = await adapter({ 'my-graph/graph.py': graph });
    expect(odd).toContain('from graph import graph as entry');
    expect(odd).toContain('["my-graph"]');
    expect(await adapter({ 'my-graph.py': graph })).toContain('importlib.import_module("my-graph").graph');
  });

  test("takes Apify's input schema over, and a Standby Actor becomes a service", async () => {
    const { manifest, written } = await adapted(PROJECTS.apify!.files);
    expect(manifest.input_schema).toEqual({
      type: 'object',
      properties: { text: { title: 'Text', type: 'string', default: 'hello' } },
      required: ['text'],
    });
    expect(JSON.parse(written['sample-input.json']!)).toEqual({ text: 'one two' });
    const about = JSON.stringify({ usesStandbyMode: true });
    const standby = await adapted({ ...PROJECTS.apify!.files, '.actor/actor.json': about });
    expect(standby.manifest.run_mode).toBe('always_on');
    expect(standby.manifest.runtime.command).toMatch(/^env ACTOR_WEB_SERVER_PORT=\$PORT .* python3 -m src$/);
  });

  test('installs packages together that .npmrc allows', async () => {
    const { files } = PROJECTS.express!;
    const settings = 'registry=https://npm.example.com/\nlegacy-peer-deps = true\nsave-exact=true\n';
    const { manifest } = await adapted({ ...files, '.npmrc': settings });
    expect(manifest.environment).toEqual({ npm_flags: '--legacy-peer-deps' });
    expect((await adapted(files)).manifest.environment).toBeUndefined();
  });

  test('an exported Express app gets a program that listens', async () => {
    const { files } = PROJECTS.express!;
    const text = "const express = require('express');\nconst app = express();\nmodule.exports = app;\n";
    const { written, entry } = await adapted({ ...files, 'server.js': text });
    expect(entry).toBe('server.js:default');
    expect(written['platform-main.mjs']).toContain('listen(Number(process.env.PORT)');
  });
});
test('an app in TypeScript starts by what its build writes, if npm start does so', async () => {
  const text = "import { serve } from '@hono/node-server';\nimport { Hono } from 'hono';\nserve(new Hono());\n";
  const files = (scripts: object) => ({
    'package.json': JSON.stringify({ scripts, dependencies: { hono: '4' } }),
    'src/index.ts': text,
  });
  const built = await adapted(files({ build: 'tsc', start: 'node dist/index.js' }));
  expect(built.manifest.runtime.command).toBe('node dist/index.js');
  expect(built.manifest.build).toBeUndefined();
  const source = await adapted(files({ build: 'tsc', start: 'tsx src/index.ts' }));
  expect(source.manifest).toMatchObject({ build: [], runtime: { command: 'node src/index.ts' } });
});
