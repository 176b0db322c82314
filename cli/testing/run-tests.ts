import { readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type AgentFolder, readAgentFolder } from '#client/agent-folder.ts';
import { UsageError } from '#client/usage-error.ts';
import type { ApiError, Client } from '#core/api/client.ts';
import { hasCode } from '#core/base/errors.ts';
import { unknownMock, withMocks } from '#core/manifest/evals/mocked-tools.ts';
import { publishFolder } from '../publishing/publish-folder.ts';
import type { AgentReference } from '../shared/agent-reference.ts';
import { failuresOf, type NamedFixture, type Outcome } from './fixtures.ts';
import type { ModelRecorder, RecordedAnswer } from './model-recorder.ts';
import type { OwnPlatform } from './test-platform.ts';

export interface TestResult {
  readonly name: string;
  readonly file: string;
  readonly status: 'passed' | 'failed' | 'skipped';
  readonly seconds: number;
  readonly cost_usd: number;
  /** Reasons of a failure, or why it was skipped. */
  readonly failures: readonly string[];
  /** What else there is to say. @default - nothing */
  readonly notes?: readonly string[];
}

interface Manifest {
  readonly name: string;
  readonly manifest?: { readonly dependencies?: readonly { readonly id: string; readonly version: string }[] };
  readonly default_skills?: readonly string[];
  readonly custom_tools?: readonly CustomTool[];
  readonly loop?: { readonly custom_tools?: readonly CustomTool[] };
  readonly required_secrets?: readonly string[];
  readonly optional_secrets?: readonly string[];
  readonly default_endpoint?: string;
}
interface CustomTool {
  readonly name: string;
  readonly command: string;
}

/** Dependencies are pinned to versions; a new platform reaches a version number by publishing repeatedly. */
const MAX_PINNED = 50;

/** Returns the dependencies and skills of an agent. */
const needsOf = ({ manifest, default_skills = [] }: Manifest) => [
  ...(manifest?.dependencies ?? []).map(({ id, version }) => ({ id, version })),
  ...default_skills.map((reference) => {
    const [id, version = 'v1'] = reference.split('@') as [string, string?];
    return { id, version };
  }),
];

/** Returns the workspace of the dependencies in a folder. Throws UsageError if there are several. */
export async function orgOf(folder: string): Promise<string> {
  const ids = needsOf((await readAgentFolder(folder)).body as unknown as Manifest).map(({ id }) => id);
  const orgs = [...new Set(ids.filter((id) => id.includes('/')).map((id) => id.split('/')[0]!))];
  if (orgs.length > 1) {
    throw new UsageError(`The agent calls agents of several workspaces (${orgs.join(', ')}). Test it with --live.`);
  }
  return orgs[0] ?? 'main';
}

/** An agent on the platform of the tests: each set of mocks is a version. */
export class PublishedFolder {
  readonly #platform: OwnPlatform;
  readonly #folder: string;
  readonly #versions = new Map<string, string>();

  constructor(platform: OwnPlatform, folder: string) {
    this.#platform = platform;
    this.#folder = folder;
  }

  /** Publishes the agent's dependencies from sibling folders, and stores secrets from the environment. */
  async publishNeeds(env: Readonly<Record<string, string | undefined>>): Promise<void> {
    await publishNeeds(this.#platform, this.#folder, env, new Set());
  }

  /** Returns the version whose custom tools return the mocks. Throws UsageError for a mock without a tool. */
  async versionFor(mocks: Readonly<Record<string, unknown>> = {}): Promise<AgentReference & { endpoint: string }> {
    const read = await readAgentFolder(this.#folder);
    const manifest = read.body as unknown as Manifest;
    const key = JSON.stringify(mocks);
    let version = this.#versions.get(key);
    if (version === undefined) {
      version = await publish(this.#platform.client, { ...read, body: mocked(read.body, mocks) });
      this.#versions.set(key, version);
    }
    return { org: this.#platform.org, agent: manifest.name, version, endpoint: manifest.default_endpoint ?? 'run' };
  }
}

async function publishNeeds(
  platform: OwnPlatform,
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
  done: Set<string>,
): Promise<void> {
  const manifest = (await readAgentFolder(folder)).body as unknown as Manifest;
  for (const name of [...(manifest.required_secrets ?? []), ...(manifest.optional_secrets ?? [])]) {
    const value = env[name];
    if (!value || /^(ANTHROPIC|OPENAI|GEMINI)_API_KEY$/.test(name)) continue;
    await platform.client.putSecret({ params: { workspace_id: platform.workspaceId }, body: { name, value } });
  }
  for (const { id, version } of needsOf(manifest)) {
    if (done.has(`${id}@${version}`)) continue;
    done.add(`${id}@${version}`);
    const needed = join(folder, '..', id.split('/').at(-1)!);
    const read = await readAgentFolder(needed).catch((error: Error) => {
      throw new UsageError(`Cannot publish the dependency ${id} from ${needed}: ${error.message}`, {
        hint: 'Put its folder there, or test against a running platform with --live.',
      });
    });
    await publishNeeds(platform, needed, env, done);
    const times = Number(version.slice(1));
    if (!(times >= 1 && times <= MAX_PINNED))
      throw new UsageError(`${id} is pinned to ${version}: test it with --live.`);
    for (let count = 1; count < times; count++) await platform.client.createAgent({ body: ungated(read).body });
    await publish(platform.client, read);
  }
}

/** Publishes a version, even if it is identical to the last, and waits until it is runnable. Returns its name. */
async function publish(client: Client, folder: AgentFolder): Promise<string> {
  const { agent, failure } = await publishFolder(client, ungated(folder), { always: true });
  if (failure === null) return agent.version;
  throw new UsageError(`Its dependencies could not be installed:\n${failure}`, { exitCode: 1 });
}

/** Tests call each version at once, and have outcomes of their own. */
const ungated = ({ body: { evals: _, ...body }, evalFiles: __, ...folder }: AgentFolder): AgentFolder => ({
  ...folder,
  body,
});

/** Returns the manifest with tool commands replaced by commands that print the mocks. */
function mocked(body: Record<string, unknown>, mocks: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { custom_tools, loop } = body as unknown as Manifest;
  const own = loop?.custom_tools ?? custom_tools ?? [];
  const { tools, unknown } = withMocks(own, mocks);
  if (unknown !== undefined) throw new UsageError(unknownMock(unknown, own));
  return loop?.custom_tools
    ? { ...body, loop: { ...loop, custom_tools: tools } }
    : { ...body, ...(custom_tools && { custom_tools: tools }) };
}

/** Runs one fixture on an agent. */
export async function callFixture(
  client: Client,
  workspaceId: string,
  folder: string,
  { endpoint, ...params }: AgentReference & { endpoint: string },
  fixture: NamedFixture,
): Promise<Outcome> {
  const body = await bodyOf(folder, fixture);
  const started = performance.now();
  const answer = await client
    .callAgent({ params: { ...params, endpoint }, body, headers: { 'x-platform-client': 'cli' } })
    .then((response) => ({ response: response as unknown as CallAnswer, error: undefined }))
    .catch((error: ApiError) => {
      if (error.name !== 'ApiError') throw error;
      return { response: undefined, error };
    });
  const { response, error } = answer;
  const seconds = (response?.metadata.processing_time_ms ?? performance.now() - started) / 1000;
  const requestId = response?.metadata.request_id ?? error?.requestId;
  const looks = fixture.expected_tools !== undefined || fixture.max_cost_usd !== undefined;
  const seen = looks && requestId !== undefined ? await eventsOf(client, workspaceId, requestId) : NOTHING;
  if (error !== undefined) return { ...seen, seconds, error: { code: error.code, message: error.message } };
  return { ...seen, seconds, output: response?.data };
}

interface CallAnswer {
  readonly data: unknown;
  readonly metadata: { readonly request_id: string; readonly processing_time_ms: number };
}

const NOTHING = { tools: [] as string[], costUsd: 0 };

/** Returns the tools that a run called, and the cost of its models. A rejected call has no run. */
async function eventsOf(client: Client, workspace_id: string, run_id: string): Promise<typeof NOTHING> {
  const params = { workspace_id, run_id };
  try {
    const { trace } = await client.getRunTrace({ params });
    const { events } = await client.listTraceEvents({
      params: { workspace_id, trace_id: trace.id },
      query: { limit: 1000 },
    });
    const tools = events.filter(({ event_type }) => event_type === 'tool_call_started');
    return {
      tools: tools.map(({ payload }) => String(payload.tool_name)),
      costUsd: events.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0),
    };
  } catch (error) {
    if ((error as ApiError).code === 'NOT_FOUND') return NOTHING;
    throw error;
  }
}

async function bodyOf(folder: string, { input, files = [], path: fixture }: NamedFixture): Promise<unknown> {
  if (files.length === 0) return input ?? {};
  const form = new FormData();
  for (const path of files) {
    const bytes = await readFile(join(folder, path)).catch((error) => {
      throw new UsageError(`${fixture}: ${path} cannot be read: ${error.code}.`);
    });
    form.append('files[]', new Blob([bytes]), basename(path));
  }
  form.append('metadata', JSON.stringify(input ?? {}));
  return form;
}

/** Runs a fixture while model answers are recorded or replayed, and checks the result. */
export async function runFixture(
  fixture: NamedFixture,
  call: () => Promise<Outcome>,
  recording?: { readonly recorder: ModelRecorder; readonly records: boolean; readonly folder: string },
): Promise<TestResult> {
  const { name, path: file } = fixture;
  const recordings = recording && join(recording.folder, recordingOf(fixture));
  if (recordings !== undefined) {
    recording!.recorder.begin(recording!.records ? undefined : await readRecording(recordings));
  }
  const outcome = await call();
  const failures = failuresOf(fixture, outcome);
  if (recording?.records && recording.recorder.answers.length > 0) {
    await writeFile(recordings!, `${JSON.stringify({ answers: recording.recorder.answers }, null, 2)}\n`);
  }
  if (recording !== undefined && recording.recorder.unknown > 0) {
    failures.push(
      `${recordingOf(fixture)} has no recorded answer for a model request: run \`platform test --llm record\``,
    );
  }
  const status = failures.length > 0 ? 'failed' : 'passed';
  return { name, file, status, seconds: outcome.seconds, cost_usd: outcome.costUsd, failures };
}

/** Path of the recording, beside the fixture: `tests/gap.llm.json`. */
export const recordingOf = ({ name }: NamedFixture): string => `tests/${name}.llm.json`;

/** Reads a recording. Throws UsageError if the file is not a recording. */
export async function readRecording(path: string): Promise<readonly RecordedAnswer[]> {
  try {
    const { answers } = JSON.parse(await readFile(path, 'utf8')) as { answers?: readonly RecordedAnswer[] };
    if (Array.isArray(answers)) return answers;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return [];
  }
  throw new UsageError(`${path} is not a recording: delete it and run with --llm record.`);
}
