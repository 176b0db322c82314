import { createHash } from 'node:crypto';
import type { AgentFolder } from '#client/agent-folder.ts';
import { type OnUpload, uploadBundle } from '#client/upload-bundle.ts';
import type { Client } from '#core/api/client.ts';

export interface PublishSettings {
  /** Into the user's own `dev`, instead of the next number. */
  readonly dev?: boolean;
  /** Also what the platform has just so. @default false */
  readonly always?: boolean;
  /** Gets the output of an installation as it comes; first an empty text, when it is known that there is one. */
  readonly onInstall?: (text: string) => void;
  readonly onUpload?: OnUpload;
}

export type Published = Awaited<ReturnType<Client['createAgent']>> & {
  /** Whether the platform installed dependencies for it; `false` where it had them already. */
  readonly installed: boolean;
  /** Why its dependencies could not be installed: it cannot run. */
  readonly failure: string | null;
};

const POLL_MS = 1_000;
/** How often a version may have its dependencies and still not be called: who had to make it so has died. */
const MAX_READY_POLLS = 30;

/**
 * Publishes what a folder holds, unless the platform has just that already: one request then, else two for a program. Waits
 * until `latest` calls it, also where another publish of the same began the installation. Throws what the requests throw.
 */
export async function publishFolder(
  client: Client,
  { body, bundle }: AgentFolder,
  { dev = false, always = false, onInstall = () => {}, onUpload }: PublishSettings,
): Promise<Published> {
  const sha256 = bundle && createHash('sha256').update(bundle).digest('hex');
  const made = await client.createAgent({
    query: {
      unless_unchanged: always ? 'false' : 'true',
      ...(dev && { dev: 'true' }),
      ...(sha256 && { bundle_sha256: sha256 }),
    },
    body,
  });
  const isRunnable = made.unchanged ? made.agent.runnable : bundle === undefined;
  if (isRunnable || bundle === undefined) return { ...made, installed: false, failure: null };
  const { id } = made.agent;
  const log = followInstall(client, id, onInstall);
  try {
    const upload = made.unchanged ? undefined : await uploadBundle(client, id, bundle, onUpload);
    const isBuilding = upload === undefined || upload.environment_status === 'building';
    if (isBuilding) log.begin();
    // An installation may be over before the upload is answered. A version `dev` has the logs of those before, too.
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

/** A version after an upload that left nothing to wait for. */
const withUpload = (agent: Agent, { environment_status, environment_error }: Upload): Agent => ({
  ...agent,
  runnable: environment_status !== 'failed',
  environment_status,
  environment_error,
});

/** A version once it can be called, or never will be. */
async function runnableVersion(client: Client, id: string): Promise<Agent> {
  for (let readyPolls = 0; ; ) {
    const agent = await client.getAgent({ params: { id } });
    const { runnable, environment_status: status } = agent;
    if (status === 'ready') readyPolls++;
    if (runnable || status === 'failed' || readyPolls > MAX_READY_POLLS) return agent;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** What went wrong at the installation of a version. */
async function failureOf(client: Client, { id, environment_error, environment_status }: Agent): Promise<string> {
  if (environment_error) return environment_error;
  if (environment_status === 'ready') return 'The installation was interrupted after its last step.';
  const [log] = await client.listAgentLogs({ params: { id }, query: { limit: 1 } });
  return log?.error_message ?? 'unknown';
}

/** Passes on what pip or npm print, once the upload takes longer than a moment. */
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
    // The log only informs: a failure to read it is none of the publish.
    reading = reading.then(read).catch(() => {});
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
