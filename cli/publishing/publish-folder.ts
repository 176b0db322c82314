import { createHash } from 'node:crypto';
import type { AgentFolder } from '#client/agent-folder.ts';
import { type OnUpload, sendableBody, uploadBundle } from '#client/upload-bundle.ts';
import type { Client } from '#core/api/client.ts';
import { hasCode } from '#core/base/errors.ts';
import { bodyOfFolder } from '#core/manifest/publish-body.ts';

export interface PublishSettings {
  /** Publishes to the user's own `dev` instead of a new version number. */
  readonly dev?: boolean;
  /** Publishes a preview of this name instead of a version that stays. */
  readonly preview?: string | undefined;
  /** Publishes even if nothing has changed. @default false */
  readonly always?: boolean;
  /**
   * Called with the output of an installation as it arrives; first with an empty text, once it is known that one is
   * running.
   */
  readonly onInstall?: (text: string) => void;
  readonly onUpload?: OnUpload;
}

export type Published = Awaited<ReturnType<Client['createAgent']>> & {
  /** Whether the platform installed dependencies; `false` if they were cached. */
  readonly installed: boolean;
  /** Error of the installation of dependencies, if it failed. The version then cannot run. */
  readonly failure: string | null;
};

const POLL_MS = 1_000;
/**
 * Maximum number of polls of a version that has its dependencies but is not runnable, because the process that should
 * finish it has crashed.
 */
const MAX_READY_POLLS = 30;

/**
 * Publishes a folder unless the platform already has the same content: takes one request then, else two for a program.
 * Waits until `latest` is this version, even if a concurrent publish of the same content started the installation.
 * Throws the errors of its requests.
 */
export async function publishFolder(
  client: Client,
  folder: AgentFolder,
  { dev = false, preview, always = false, onInstall = () => {}, onUpload }: PublishSettings,
): Promise<Published> {
  const { bundle } = folder;
  const sha256 = bundle && createHash('sha256').update(bundle).digest('hex');
  const made = await client.createAgent({
    query: {
      unless_unchanged: always ? 'false' : 'true',
      ...(dev && { dev: 'true' }),
      ...(preview !== undefined && { preview }),
      ...(sha256 && { bundle_sha256: sha256 }),
    },
    body: await sendableBody(client, bodyOfFolder(folder)),
  });
  const isRunnable = made.unchanged ? made.agent.runnable : bundle === undefined;
  if (isRunnable || bundle === undefined) return { ...made, installed: false, failure: null };
  const { id } = made.agent;
  const log = followInstall(client, id, onInstall);
  try {
    const upload = made.unchanged ? undefined : await uploadBundle(client, id, bundle, onUpload);
    const isBuilding = upload === undefined || upload.environment_status === 'building';
    if (isBuilding) log.begin();
    // The installation may be finished before the upload returns. The version `dev` also has older logs.
    else if (!dev) await log.look();
    const agent = isBuilding ? await runnableVersion(client, id) : withUpload(made.agent, upload);
    return {
      ...made,
      agent,
      services_updated: made.services_updated + (upload?.services_updated ?? 0),
      installed: log.hasBegun(),
      failure: agent.runnable ? null : await failureOf(client, agent),
    };
  } finally {
    await log.stop();
  }
}

type Agent = Published['agent'];
type Upload = Awaited<ReturnType<Client['uploadBundle']>>;

/** Returns the version after an upload without an installation in progress. */
const withUpload = (agent: Agent, { environment_status, environment_error }: Upload): Agent => ({
  ...agent,
  runnable: environment_status !== 'failed',
  environment_status,
  environment_error,
});

/** Polls a version until it is runnable, or has failed. */
async function runnableVersion(client: Client, id: string): Promise<Agent> {
  for (let readyPolls = 0; ; ) {
    const agent = await client.getAgent({ params: { id } });
    const { runnable, environment_status: status } = agent;
    if (status === 'ready') readyPolls++;
    if (runnable || status === 'failed' || readyPolls > MAX_READY_POLLS) return agent;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Returns the error of the installation of a version. */
async function failureOf(client: Client, { id, environment_error, environment_status }: Agent): Promise<string> {
  if (environment_error) return environment_error;
  if (environment_status === 'ready') return 'The installation was interrupted after its last step.';
  const [log] = await client.listAgentLogs({ params: { id }, query: { limit: 1 } }).catch((error) => {
    if (hasCode(error, 'FORBIDDEN')) return [];
    throw error;
  });
  return log?.error_message ?? 'unknown';
}

/** Streams the output of pip or npm if the upload takes longer than a second. */
function followInstall(client: Client, id: string, onText: (text: string) => void) {
  let shown = 0;
  let isEnded = false;
  let hasBegun = false;
  const begin = () => {
    if (!hasBegun) onText('');
    hasBegun = true;
  };
  const read = async () => {
    const logs = await client.listAgentLogs({ params: { id }, query: { limit: 1 } });
    const [install] = logs.filter(({ trigger_source }) => trigger_source === 'install');
    const text = install === undefined ? '' : `${install.stdout}${install.stderr}`;
    if (install !== undefined) begin();
    if (text.length > shown) onText(text.slice(shown));
    shown = Math.max(shown, text.length);
  };
  let reading: Promise<void> = Promise.resolve();
  const look = (): Promise<void> => {
    // The log is informational: failing to read it must not fail the publish. Keys that only publish may not read it.
    reading = reading.then(read).catch((error) => {
      if (hasCode(error, 'FORBIDDEN')) isEnded = true;
    });
    return reading;
  };
  const timer = setInterval(() => {
    if (!isEnded) void look();
  }, POLL_MS);
  return {
    begin,
    look,
    hasBegun: () => hasBegun,
    async stop() {
      isEnded = true;
      clearInterval(timer);
      await reading;
    },
  };
}
