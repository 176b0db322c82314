import { EDITOR_SCHEMAS, editorSchema } from '#core/manifest/editor/schemas.ts';
import { type Files, packedFiles } from './packed-files.ts';

interface Template {
  readonly summary: string;
  /** Folder in `examples/` that the template is based on. */
  readonly example: string;
  /** Example agents that it calls; they are created beside it. */
  readonly calls?: readonly string[];
}

export const TEMPLATES = {
  prompt: { summary: 'a single model call with schemas', example: 'ticket-triage' },
  'tool-python': { summary: 'a Python program', example: 'csv-insights' },
  'tool-node': { summary: 'a Node.js program with an npm package', example: 'html-to-markdown' },
  loop: { summary: 'a model that uses tools', example: 'log-investigator' },
  orchestrator: {
    summary: 'a Python program that calls two agents',
    example: 'support-digest',
    calls: ['csv-insights', 'ticket-triage'],
  },
  skill: { summary: 'instructions for other agents', example: 'reply-style' },
  service: { summary: 'an always-on Python worker', example: 'site-watch' },
} as const satisfies { readonly [name: string]: Template };

export type TemplateName = keyof typeof TEMPLATES;

const EDITOR_FOLDER = '.platform';
const schemaPath = (file: string): string => `${EDITOR_FOLDER}/${file.replace('.json', '.schema.json')}`;
/** Members that are removed from an example's manifest: a new agent is private, and needs no other agent's skill. */
const EXAMPLES_OWN = ['is_public', 'allow_local_download', 'tags', 'default_skills'];

/**
 * Returns the files of a new agent by path, relative to the parent of its folder. Includes the agents that it calls, in
 * their own folders.
 */
export function templateFiles(template: TemplateName, name: string): Files {
  const { example, calls = [] }: Template = TEMPLATES[template];
  return { ...agentFiles(example, name), ...Object.assign({}, ...calls.map((called) => agentFiles(called, called))) };
}

function agentFiles(example: string, name: string): Files {
  const files: Record<string, string> = {};
  const prefix = `examples/${example}/`;
  for (const [path, text] of Object.entries(packedFiles())) {
    if (path.startsWith(prefix)) files[path.slice(prefix.length)] = adapted(path.slice(prefix.length), text, name);
  }
  const isSkill = files['SKILL.md'] !== undefined;
  files['AGENTS.md'] = isSkill ? skillGuide(name) : agentGuide(name, files);
  if (!isSkill) {
    files['.gitignore'] = `${EDITOR_FOLDER}/*\n!${EDITOR_FOLDER}/*.schema.json\nnode_modules/\n__pycache__/\n`;
    files['.vscode/settings.json'] = json({ 'json.schemas': editorSettings() });
    for (const file of EDITOR_SCHEMAS) files[schemaPath(file)] = json(editorSchema(file));
  }
  return Object.fromEntries(Object.entries(files).map(([path, text]) => [`${name}/${path}`, text]));
}

function adapted(path: string, text: string, name: string): string {
  if (path === 'SKILL.md') return text.replace(/^name: .*$/m, `name: ${name}`);
  if (path === 'agent.json') {
    const { $schema: _, bundle, ...manifest } = JSON.parse(text) as Record<string, unknown>;
    const kept = Object.entries(manifest).filter(([member]) => !EXAMPLES_OWN.includes(member));
    return json({ $schema: `./${schemaPath('agent.json')}`, ...Object.fromEntries(kept), name, bundle });
  }
  if (path === 'schema.json') return json({ $schema: `./${schemaPath('schema-file.json')}`, ...JSON.parse(text) });
  if (/^tests\/fixture-.*\.json$/.test(path)) {
    return json({ $schema: `../${schemaPath('fixture.json')}`, ...JSON.parse(text) });
  }
  // These paths differ in the examples.
  return text.replaceAll('PYTHONPATH=../../sdk/python ', '').replaceAll('README.md', 'AGENTS.md');
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

const EDITED: { readonly [schema in (typeof EDITOR_SCHEMAS)[number]]: string } = {
  'agent.json': '/agent.json',
  'schema-file.json': '/schema.json',
  'fixture.json': '/tests/fixture-*.json',
};
const editorSettings = () =>
  EDITOR_SCHEMAS.map((file) => ({ fileMatch: [EDITED[file]], url: `./${schemaPath(file)}` }));

/** Returns the guide for people and coding agents who change the folder. */
function agentGuide(name: string, files: Files): string {
  const manifest = JSON.parse(files['agent.json']!) as {
    runtime?: { command: string };
    run_mode?: string;
    required_secrets?: string[];
    manifest?: { dependencies: { id: string; version: string }[] };
  };
  const samples = Object.keys(files).filter((path) => path.startsWith('sample-files/'));
  const hasFixtures = Object.keys(files).some((path) => path.startsWith('tests/'));
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
    samples.length > 0 && '- `sample-files/`: example files.',
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
          `It calls ${needs.join(' and ')}. Publish these first. \`main\` is the workspace; if yours has another name, change it in \`agent.json\`.`,
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
      isService ? `platform service deploy ${name}` : `platform run ${name}${input}`,
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
