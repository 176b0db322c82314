import { undeclaredVariables } from '../publishing/undeclared.ts';
import type { Adaptation, Entry, Framework, Project } from './framework.ts';
import type { SourceText } from './project.ts';

/** Names of variables that are secrets. */
const SECRET = /(?:KEY|TOKEN|SECRET|PASSWORD)$/;

/** Returns the files that make an agent of a project, by path from its folder. */
export function agentFiles(project: Project, framework: Framework, entry: Entry, name: string) {
  const { manifest, files, input, notes = [] } = framework.adapt(project, entry);
  const read = secretsIn(project.sources, manifest);
  const { optional_secrets: declared = [] } = manifest as { readonly optional_secrets?: readonly string[] };
  const secrets = [...declared, ...read];
  const written: Record<string, string> = {
    'agent.json': json({
      name,
      type: 'tool',
      description: `${framework.title} of ${project.name}.`,
      required_secrets: [],
      bundle: { exclude: ['sample-*'] },
      ...manifest,
      ...npmFlags(project),
      ...(secrets.length > 0 && { optional_secrets: secrets }),
    }),
    ...files,
  };
  if (input !== undefined) {
    written['sample-input.json'] = json(input);
    const description = `${framework.title} answers the sample input.`;
    written['tests/fixture-sample.json'] = json({ description, input, expected_schema: { type: 'object' } });
  }
  if (framework.language === 'python' && !project.hasPythonRequirements) {
    written['requirements.txt'] ??= `${framework.packages[0]}\n`;
  }
  return { files: written, isService: input === undefined, notes: [...notes, ...secretNotes(read)] };
}

/** Settings of `.npmrc` that decide whether packages can be installed together. A publish leaves the file out. */
const PEER_SETTING = /^[ \t]*(legacy-peer-deps|force)[ \t]*=[ \t]*true[ \t]*$/gm;

function npmFlags(project: Project) {
  const found = [...(project.textOf('.npmrc') ?? '').matchAll(PEER_SETTING)].map(([, name]) => `--${name}`);
  return found.length === 0 ? {} : { environment: { npm_flags: found.join(' ') } };
}

const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Returns the secrets that the code reads and the manifest does not declare. */
function secretsIn(sources: readonly SourceText[], manifest: Adaptation['manifest']): string[] {
  const files = new Map(sources.map(({ path, text }) => [path, Buffer.from(text)]));
  return [...undeclaredVariables(manifest, files).keys()].filter((name) => SECRET.test(name));
}

const secretNotes = (secrets: readonly string[]): string[] =>
  secrets.map((name) => `The code may read ${name}: store it with \`platform secrets set ${name}\`.`);
