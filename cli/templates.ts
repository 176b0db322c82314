import { copiedManifest, exampleFiles, type FileContent, type FilesByPath, galleryOf } from '#client/gallery.ts';
import { editorSchema } from '#core/manifest/editor/schemas.ts';
import { packedFiles } from './packed-files.ts';

interface Template {
  readonly summary: string;
  /** Templates of agents that it calls; they are created beside it. */
  readonly needs?: readonly string[];
}

/** Templates for `platform init`, smallest first. Each one is a folder in `examples/templates`. */
export const TEMPLATES = {
  'hello-python': { summary: 'a Python program of 14 lines' },
  'hello-node': { summary: 'a Node.js program of 10 lines' },
  'hello-typescript': { summary: 'a TypeScript program without a build step' },
  prompt: { summary: 'a single model call with schemas' },
  chat: { summary: 'a conversation that remembers what was said' },
  loop: { summary: 'a model that uses two tools' },
  'long-loop': { summary: 'a loop that may take hours and survives restarts' },
  approval: { summary: 'a loop that asks a person before it pays' },
  orchestrator: { summary: 'a Python program that calls another agent', needs: ['hello-python'] },
  'durable-orchestrator': {
    summary: 'an orchestrator that asks a person and survives restarts',
    needs: ['hello-python'],
  },
  'web-app': { summary: 'a service with a web page' },
  worker: { summary: 'a program that always runs' },
  skill: { summary: 'instructions for other agents' },
} as const satisfies { readonly [name: string]: Template };

export type TemplateName = keyof typeof TEMPLATES;

/** The schema for editors. `$schema` in `agent.json` is enough for them to find it. */
const SCHEMA_PATH = '.platform/agent.schema.json';

/**
 * Returns the files of a new agent by path, relative to the parent of its folder. Includes the agents that it calls, in
 * their own folders.
 */
export function templateFiles(template: TemplateName, name: string): FilesByPath {
  const { needs = [] }: Template = TEMPLATES[template];
  return withNeeded(`templates/${template}`, name, needs, 'templates/');
}

/** Like {@link templateFiles}, for an example of {@link galleryOf}. Its skills are left out. */
export function galleryFiles(example: string, name: string): FilesByPath {
  const gallery = galleryOf(packedFiles());
  const { needs } = gallery.find((entry) => entry.name === example)!;
  const called = needs.filter((need) => gallery.find((entry) => entry.name === need)?.kind !== 'skill');
  return withNeeded(example, name, called, '');
}

const withNeeded = (source: string, name: string, needs: readonly string[], prefix: string): FilesByPath =>
  Object.assign({}, ...needs.map((need) => agentFiles(prefix + need, need)), agentFiles(source, name));

function agentFiles(source: string, name: string): FilesByPath {
  const { 'README.md': _, ...all } = exampleFiles(packedFiles(), source);
  const files: Record<string, FileContent> = {};
  for (const [path, content] of Object.entries(all)) {
    files[path] = typeof content === 'string' ? adapted(path, content, name) : content;
  }
  const isSkill = files['SKILL.md'] !== undefined;
  files['AGENTS.md'] = isSkill ? skillGuide(name) : agentGuide(name, files);
  if (!isSkill) {
    files['.gitignore'] = `.platform/*\n!${SCHEMA_PATH}\nnode_modules/\n__pycache__/\n`;
    files[SCHEMA_PATH] = json(editorSchema('agent.json'));
  }
  return Object.fromEntries(Object.entries(files).map(([path, content]) => [`${name}/${path}`, content]));
}

function adapted(path: string, text: string, name: string): string {
  if (path === 'SKILL.md') return text.replace(/^name: .*$/m, `name: ${name}`);
  if (path === 'agent.json') {
    // The skills of an example are not copied.
    const { $schema: _, default_skills: __, bundle, ...manifest } = copiedManifest(text);
    return json({ $schema: `./${SCHEMA_PATH}`, ...manifest, name, bundle });
  }
  // These paths differ in the examples.
  return text.replaceAll('PYTHONPATH=../../sdk/python ', '').replaceAll('README.md', 'AGENTS.md');
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Returns the guide for people and coding agents who change the folder. */
function agentGuide(name: string, files: FilesByPath): string {
  const manifest = JSON.parse(files['agent.json'] as string) as {
    runtime?: { command: string };
    run_mode?: string;
    required_secrets?: string[];
    sessions?: unknown;
    manifest?: { dependencies: { id: string; version: string }[] };
  };
  const samples = Object.keys(files).filter((path) => path.startsWith('sample-files/'));
  const hasFixtures = Object.keys(files).some((path) => path.startsWith('tests/'));
  const hasEvals = Object.keys(files).some((path) => path.startsWith('evals/'));
  const isService = manifest.run_mode === 'always_on';
  const has = (path: string): boolean => files[path] !== undefined;
  const lines = [
    '- `agent.json`: the manifest. Editors show documentation for its members.',
    has('schema.json') &&
      '- `schema.json`: JSON Schemas of the input and the output. Every call is validated against them.',
    has('prompt.md') && '- `prompt.md`: the prompt. `{{name}}` is replaced by a member of the input.',
    manifest.runtime &&
      !isService &&
      `- The program (\`${manifest.runtime.command}\`) reads the JSON input from stdin and writes the JSON output to stdout. stderr is the log.`,
    isService && `- The worker (\`${manifest.runtime?.command}\`) runs continuously. Its output is the log.`,
    has('sample-input.json') && '- `sample-input.json`: an example input.',
    hasFixtures && '- `tests/fixture-*.json`: test calls with their expected results.',
    hasEvals && '- `evals/*.yaml`: cases for the published version, with what a good answer has.',
    samples.length > 0 && '- `sample-files/`: example files.',
    has('sample-deploy.json') && '- `sample-deploy.json`: settings for a deployment.',
    has('server.test.mjs') && '- `server.test.mjs`: unit tests; run `node --test`.',
    has('test_main.py') && '- `test_main.py`: unit tests; run `python3 -m unittest`.',
    has('index.test.js') && '- `index.test.js`: unit tests; run `npm ci && npm test`.',
    has('requirements.txt') && '- `requirements.txt`: packages to install on publish.',
    has('package.json') && '- `package.json`: packages to install on publish.',
  ];
  const needs = (manifest.manifest?.dependencies ?? []).map(({ id, version }) => `\`${id}@${version}\``);
  const input = has('sample-input.json') ? ' sample-input.json' : samples.map((path) => ` --file ${path}`).join('');
  const secrets = manifest.required_secrets ?? [];
  return [
    `# ${name}`,
    'An agent. The important files in this folder:',
    lines.filter(Boolean).join('\n'),
    ...(needs.length > 0
      ? [
          `It calls ${needs.join(' and ')}. Publish these first. \`main\` is the workspace; if yours has another name, change it in this folder.`,
        ]
      : []),
    ...(secrets.length > 0
      ? [`It requires these secrets: ${secrets.map((secret) => `\`platform secrets set ${secret}\``).join(', ')}.`]
      : []),
    'In this folder:',
    [
      '```sh',
      'platform validate     # validates without publishing',
      ...(hasFixtures ? ['platform test         # runs the tests in tests/'] : []),
      'platform publish      # publishes a new version',
      ...(hasEvals ? ['platform eval         # runs the cases in evals/ on the published version'] : []),
      isService
        ? `platform service deploy ${name}${has('sample-deploy.json') ? ' --body @sample-deploy.json' : ''}`
        : `platform run ${name}${input}`,
      ...(manifest.sessions ? [`platform chat ${name}`] : []),
      isService ? `platform service logs ${name}` : `platform logs ${name}`,
      '```',
    ].join('\n'),
    'Never write keys or passwords into these files. Store them with `platform secrets set NAME`, and list the names in\n`required_secrets` of `agent.json`: the agent gets them as environment variables.\n',
  ].join('\n\n');
}

const skillGuide = (name: string): string =>
  `# ${name}

A skill: instructions that other agents follow. They are in \`SKILL.md\`, whose front matter has the name and says when to use
the skill. Other text files in this folder are part of it.

\`\`\`sh
platform validate     # validates without publishing
platform publish      # publishes a new version
platform run my-agent --skills ${name}
\`\`\`

Agents that always use it list it in \`default_skills\` of their \`agent.json\`.
`;
