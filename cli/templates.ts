import { EDITOR_SCHEMAS, editorSchema } from '#core/manifest/editor/schemas.ts';
import { type Files, packedFiles } from './packed-files.ts';

interface Template {
  readonly summary: string;
  /** The folder of `examples/` that it is made from. */
  readonly example: string;
  /** Examples that its agent calls; they are written beside it. */
  readonly calls?: readonly string[];
}

export const TEMPLATES = {
  prompt: { summary: 'one question to a model, with schemas', example: 'ticket-triage' },
  'tool-python': { summary: 'a Python program', example: 'csv-insights' },
  'tool-node': { summary: 'a Node program with a package from npm', example: 'html-to-markdown' },
  loop: { summary: 'a model that uses tools', example: 'log-investigator' },
  orchestrator: {
    summary: 'a Python program that calls two agents',
    example: 'support-digest',
    calls: ['csv-insights', 'ticket-triage'],
  },
  skill: { summary: 'rules that other agents follow', example: 'reply-style' },
  service: { summary: 'a Python worker that always runs', example: 'site-watch' },
} as const satisfies { readonly [name: string]: Template };

export type TemplateName = keyof typeof TEMPLATES;

const EDITOR_FOLDER = '.platform';
const schemaPath = (file: string): string => `${EDITOR_FOLDER}/${file.replace('.json', '.schema.json')}`;
/** Members of an example's manifest that a new agent does not have: it is private, and needs no other agent's skill. */
const EXAMPLES_OWN = ['is_public', 'allow_local_download', 'tags', 'default_skills'];

/**
 * The files of a new agent, by their path from the folder that holds the agent's folder. Agents that it calls come with it,
 * in folders of their own.
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
  // Of an example, these lie elsewhere.
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

/** What people and coding agents must know to change the folder. */
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
    '- `agent.json`: the manifest. Editors explain its members.',
    has('schema.json') && '- `schema.json`: JSON Schemas of the input and the output. Both are checked at each call.',
    has('prompt.md') && '- `prompt.md`: the prompt. `{{name}}` stands for a member of the input.',
    manifest.runtime &&
      !isService &&
      `- The program, started with \`${manifest.runtime.command}\`, reads the input as JSON from stdin and writes the output as JSON to stdout. stderr is its log.`,
    isService &&
      `- The worker, started with \`${manifest.runtime?.command}\`, runs for ever; what it prints is its log.`,
    has('sample-input.json') && '- `sample-input.json`: an input to try it with.',
    hasFixtures && '- `tests/fixture-*.json`: calls and what they must answer.',
    samples.length > 0 && '- `sample-files/`: files to try it with.',
    has('test_main.py') && '- `test_main.py`: tests of the program itself, `python3 -m unittest`.',
    has('index.test.js') && '- `index.test.js`: tests of the program itself, `npm ci && npm test`.',
    has('requirements.txt') && '- `requirements.txt`: the packages that are installed when it is published.',
    has('package.json') && '- `package.json`: the packages that are installed when it is published.',
  ];
  const needs = (manifest.manifest?.dependencies ?? []).map(({ id, version }) => `\`${id}@${version}\``);
  const input = has('sample-input.json') ? ' sample-input.json' : samples.map((path) => ` --file ${path}`).join('');
  const secrets = manifest.required_secrets ?? [];
  return [
    `# ${name}`,
    'An agent. This folder is published as it is; these files matter:',
    lines.filter(Boolean).join('\n'),
    ...(needs.length > 0
      ? [
          `It calls ${needs.join(' and ')}. Publish these first. \`main\` is the workspace: write yours in \`agent.json\` if it has another name.`,
        ]
      : []),
    ...(secrets.length > 0
      ? [
          `It runs once these secrets are stored: ${secrets.map((secret) => `\`platform secrets set ${secret}\``).join(', ')}.`,
        ]
      : []),
    'In this folder:',
    [
      '```sh',
      'platform validate     # checks the folder, publishes nothing',
      ...(hasFixtures ? ['platform test         # makes the calls of tests/'] : []),
      'platform publish      # makes a new version',
      isService ? `platform service deploy ${name}` : `platform run ${name}${input}`,
      isService ? `platform service logs ${name}` : `platform logs ${name}`,
      '```',
    ].join('\n'),
    'Never write keys or passwords into these files: `platform secrets set NAME` stores them, and `required_secrets` of\n`agent.json` names those that the agent gets as variables.\n',
  ].join('\n\n');
}

const skillGuide = (name: string): string =>
  `# ${name}

A skill: a text that other agents follow. \`SKILL.md\` is the text; its front matter has the name and says when to use it. Other
text files in this folder belong to it.

\`\`\`sh
platform validate     # checks the folder, publishes nothing
platform publish      # makes a new version
platform run my-agent --skills ${name}
\`\`\`

Agents that always follow it name it in \`default_skills\` of their \`agent.json\`.
`;
