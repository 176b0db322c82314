import { createHash } from 'node:crypto';
import type { Client } from '#core/api/client.ts';
import type { AgentFolder } from './bundle-folder.ts';
import { uploadBundle } from './upload-bundle.ts';

export interface PublishSettings {
  /** Into the user's own `dev`, instead of the next number. */
  readonly dev?: boolean;
  /** Also what the platform has just so. @default false */
  readonly always?: boolean;
  /** Gets the output of an installation as it comes. */
  readonly onInstall?: (text: string) => void;
  /** Called before an upload. */
  readonly onUpload?: (bytes: number) => void;
}

export type Published = Awaited<ReturnType<Client['createAgent']>> & {
  /** Whether the platform installed dependencies for it; `false` where it had them already. */
  readonly installed: boolean;
  /** Why its dependencies could not be installed: it cannot run. */
  readonly failure: string | null;
};

const POLL_MS = 1_000;

/**
 * Publishes what a folder holds, unless the platform has just that already: one request then, else two for a program. Waits
 * for the installation of dependencies. Throws what the requests throw.
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
  if (made.unchanged || bundle === undefined) return { ...made, installed: false, failure: null };
  onUpload?.(bundle.byteLength);
  const { id } = made.agent;
  const log = followInstall(client, id, onInstall);
  try {
    const upload = await uploadBundle(client, id, bundle);
    const { agent, wasBuilding } = await installed(client, made.agent, upload);
    return {
      ...made,
      agent,
      services_updated: made.services_updated + upload.services_updated,
      installed: wasBuilding || log.hasText(),
      failure: agent.environment_status === 'failed' ? await failureOf(client, agent) : null,
    };
  } finally {
    await log.stop();
  }
}

type Agent = Published['agent'];
type Upload = Awaited<ReturnType<Client['uploadBundle']>>;

/** The version once its installation has ended. */
async function installed(
  client: Client,
  made: Agent,
  { environment_status, environment_error }: Upload,
): Promise<{ readonly agent: Agent; readonly wasBuilding: boolean }> {
  if (environment_status !== 'building') {
    const runnable = environment_status !== 'failed';
    return { agent: { ...made, runnable, environment_status, environment_error }, wasBuilding: false };
  }
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    const agent = await client.getAgent({ params: { id: made.id } });
    if (agent.environment_status !== 'building') return { agent, wasBuilding: true };
  }
}

/** What went wrong at the installation of a version. */
async function failureOf(client: Client, { id, environment_error }: Agent): Promise<string> {
  if (environment_error) return environment_error;
  const [log] = await client.listAgentLogs({ params: { id }, query: { limit: 1 } });
  return log?.error_message ?? 'unknown';
}

/** Passes on what pip or npm print, once the upload takes longer than a moment. */
function followInstall(client: Client, id: string, onText: (text: string) => void) {
  let shown = 0;
  let isEnded = false;
  const read = async () => {
    const logs = await client.listAgentLogs({ params: { id }, query: { limit: 1 } });
    const [install] = logs.filter(({ trigger_source }) => trigger_source === 'install');
    const text = install === undefined ? '' : `${install.stdout}${install.stderr}`;
    if (text.length > shown) onText(text.slice(shown));
    shown = Math.max(shown, text.length);
  };
  let reading: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    // The log only informs: a failure to read it is none of the publish.
    if (!isEnded) reading = reading.then(read).catch(() => {});
  }, POLL_MS);
  return {
    hasText: () => shown > 0,
    async stop() {
      isEnded = true;
      clearInterval(timer);
      await reading;
    },
  };
}
