import { parseSkill } from '#core/manifest/skill.ts';

/** Content of a file: a text in UTF-8, or other bytes as base64. */
export type FileContent = string | { readonly base64: string };
export type FilesByPath = Readonly<Record<string, FileContent>>;

/** An example agent of `examples/`, as the CLI and the dashboard offer it. */
export interface GalleryEntry {
  readonly name: string;
  /** The description in its manifest. */
  readonly summary: string;
  readonly kind: 'prompt' | 'program' | 'loop' | 'orchestrator' | 'service' | 'skill';
  /** Tags of its manifest: what the example shows. */
  readonly features: readonly string[];
  /** Whether it, or an agent that it calls, asks a language model. */
  readonly needs_model_key: boolean;
  /** Examples that it calls or whose instructions it follows; they must be published first. */
  readonly needs: readonly string[];
}

interface Manifest {
  readonly type: string;
  readonly description: string;
  readonly tags?: readonly string[];
  readonly run_mode?: string;
  readonly loop?: object;
  readonly default_skills?: readonly string[];
  readonly manifest?: { readonly dependencies: readonly { readonly id: string }[] };
}

/**
 * Lists the examples in files of the repository, by path from its root. Their manifests are the only source: what an
 * example is called and shows is written in its own folder.
 */
export function galleryOf(files: FilesByPath): GalleryEntry[] {
  const names = Object.keys(files).flatMap(
    (path) => /^examples\/([^/]+)\/(?:agent\.json|SKILL\.md)$/.exec(path)?.[1] ?? [],
  );
  const entries = new Map([...new Set(names)].sort().map((name) => [name, entryOf(name, exampleFiles(files, name))]));
  const asksModel = ({ kind, needs }: GalleryEntry): boolean =>
    kind === 'prompt' || kind === 'loop' || needs.some((name) => entries.has(name) && asksModel(entries.get(name)!));
  return [...entries.values()].map((entry) => ({ ...entry, needs_model_key: asksModel(entry) }));
}

/** Returns the files of one example, by path from its folder. */
export function exampleFiles(files: FilesByPath, name: string): FilesByPath {
  const prefix = `examples/${name}/`;
  const own = Object.entries(files).filter(([path]) => path.startsWith(prefix));
  return Object.fromEntries(own.map(([path, content]) => [path.slice(prefix.length), content]));
}

/** Members that say how an example is offered to others: a copy is private, and its owner describes it. */
const OF_OFFER = ['is_public', 'allow_local_download', 'tags'];

/** Returns the members of an example's manifest, as `agent.json`, that a copy of it keeps. */
export const copiedManifest = (text: string): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(JSON.parse(text) as Record<string, unknown>).filter(([member]) => !OF_OFFER.includes(member)),
  );

function entryOf(name: string, files: FilesByPath): GalleryEntry {
  const about = { name, needs_model_key: false };
  if (files['SKILL.md'] !== undefined) {
    const summary = parseSkill(files['SKILL.md'] as string).skill?.description ?? '';
    return { ...about, summary, kind: 'skill', features: ['skills'], needs: [] };
  }
  const manifest = JSON.parse(files['agent.json'] as string) as Manifest;
  const calls = (manifest.manifest?.dependencies ?? []).map(({ id }) => id.split('/').at(-1)!);
  const skills = (manifest.default_skills ?? []).map((skill) => skill.split('/').at(-1)!.split('@')[0]!);
  return {
    ...about,
    summary: manifest.description,
    kind: kindOf(manifest, calls.length > 0),
    features: manifest.tags ?? [],
    needs: [...calls, ...skills],
  };
}

function kindOf({ type, run_mode, loop }: Manifest, callsAgents: boolean): GalleryEntry['kind'] {
  if (type === 'agent' || loop !== undefined) return 'loop';
  if (type === 'prompt') return 'prompt';
  if (run_mode === 'always_on') return 'service';
  return callsAgents ? 'orchestrator' : 'program';
}
