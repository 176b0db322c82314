import { changeWorkspace } from '#core/accounts/workspaces/change.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import { exists, queryAll } from '#core/ports/table.ts';
import { signingVaultOf } from '#core/ports/vault.ts';

/*
 * Main table:
 * - `WS#<workspace id>#TELEMETRY / META`: the settings of a workspace (gsi2 `TELEMETRY` lists the workspaces that have some);
 * - `WS#<workspace id>#TELEMETRY / HEALTH`: why nothing could be sent the last time; absent once it could.
 *
 * The headers are in the vault of secrets that the platform itself sends, so that the process that sends needs no right to
 * read what users store. The vault's value names its endpoint: headers never go to another one, whenever a process dies.
 */
const partition = (workspaceId: string): string => `WS#${workspaceId}#TELEMETRY`;
const settingsKey = (workspaceId: string) => ({ pk: partition(workspaceId), sk: 'META' });
const healthKey = (workspaceId: string) => ({ pk: partition(workspaceId), sk: 'HEALTH' });
const INDEX = 'TELEMETRY';
export const HEADERS_SECRET = 'telemetry-headers';

export type Headers = Readonly<Record<string, string>>;

export interface TelemetrySettings {
  /** Address that the user gave, see {@link tracesUrl}. */
  readonly endpoint: string;
  readonly headerNames: readonly string[];
  /** Whether spans have the stored contents of runs. */
  readonly content: boolean;
  readonly updatedAt: string;
  /** Why nothing could be sent the last time, and since when; absent if it could. */
  readonly health?: { readonly problem: string; readonly since: string };
}

/** A collector to which spans are sent. */
export interface Collector {
  readonly url: string;
  readonly headers: Headers;
}

type StoreDeps = Pick<Deps, 'main' | 'vault' | 'clock'>;

const TRACES_PATH = '/v1/traces';
/** Returns the address for traces of an endpoint, which may be the base of all signals or the address itself. */
export const tracesUrl = (endpoint: string): string => {
  const url = new URL(endpoint);
  const path = url.pathname.replace(/\/$/, '');
  url.pathname = path.endsWith(TRACES_PATH) ? path : path + TRACES_PATH;
  return url.href;
};

export async function findSettings(
  { main }: Pick<Deps, 'main'>,
  workspaceId: string,
): Promise<TelemetrySettings | undefined> {
  const items = await Array.fromAsync(queryAll(main, { pk: partition(workspaceId) }));
  const settings = items.find(({ sk }) => sk === 'META');
  const health = items.find(({ sk }) => sk === 'HEALTH');
  if (settings === undefined) return undefined;
  return {
    endpoint: settings.endpoint as string,
    headerNames: settings.headers as string[],
    content: settings.content === true,
    updatedAt: settings.updated_at as string,
    ...(health && { health: { problem: health.problem as string, since: health.since as string } }),
  };
}

/** Lists the workspaces whose spans are sent. */
export async function listExporting({ main }: Pick<Deps, 'main'>): Promise<string[]> {
  const items = queryAll(main, { index: 'gsi2', pk: INDEX });
  return (await Array.fromAsync(items)).map(({ gsi2sk }) => gsi2sk!);
}

/** Returns the collector of a workspace; `undefined` if the settings are being changed at the moment. */
export async function collectorOf(
  deps: Pick<Deps, 'vault'>,
  workspaceId: string,
  { endpoint, headerNames }: TelemetrySettings,
): Promise<Collector | undefined> {
  if (headerNames.length === 0) return { url: tracesUrl(endpoint), headers: {} };
  const kept = await readHeaders(deps, workspaceId);
  return kept?.endpoint === endpoint ? { url: tracesUrl(endpoint), headers: kept.headers } : undefined;
}

interface KeptHeaders {
  readonly endpoint: string;
  readonly headers: Headers;
}

export async function readHeaders(
  { vault }: Pick<Deps, 'vault'>,
  workspaceId: string,
): Promise<KeptHeaders | undefined> {
  const { [HEADERS_SECRET]: text } = await vault.read(signingVaultOf(workspaceId), [HEADERS_SECRET]);
  return text === undefined ? undefined : JSON.parse(text);
}

/** Replaces the settings, and notes in the workspace that its runs are exported. */
export async function putSettings(
  deps: StoreDeps,
  workspaceId: string,
  { endpoint, headers, content }: Pick<TelemetrySettings, 'endpoint' | 'content'> & { readonly headers: Headers },
): Promise<void> {
  const headerNames = Object.keys(headers);
  const kept: KeptHeaders = { endpoint, headers };
  if (headerNames.length > 0) {
    await deps.vault.write(signingVaultOf(workspaceId), HEADERS_SECRET, JSON.stringify(kept));
  }
  await deps.main.put({
    ...settingsKey(workspaceId),
    endpoint,
    headers: headerNames,
    content: content || undefined,
    updated_at: isoTime(deps.clock.now()),
    gsi2pk: INDEX,
    gsi2sk: workspaceId,
  });
  await deps.main.delete(healthKey(workspaceId));
  if (headerNames.length === 0) await deps.vault.remove(signingVaultOf(workspaceId), HEADERS_SECRET);
  await changeWorkspace(deps, workspaceId, { telemetry: true });
}

/** Returns false if there are none. Runs that wait to be sent expire. */
export async function removeSettings(deps: StoreDeps, workspaceId: string): Promise<boolean> {
  await changeWorkspace(deps, workspaceId, { telemetry: false });
  const { ok } = await deps.main.delete(settingsKey(workspaceId), exists());
  await deps.main.delete(healthKey(workspaceId));
  await deps.vault.remove(signingVaultOf(workspaceId), HEADERS_SECRET);
  return ok;
}

/** Notes why nothing can be sent; with `undefined`, that it can be again. */
export async function noteHealth(
  { main, clock }: Pick<Deps, 'main' | 'clock'>,
  workspaceId: string,
  problem: string | undefined,
): Promise<void> {
  if (problem === undefined) await main.delete(healthKey(workspaceId));
  else await main.put({ ...healthKey(workspaceId), problem, since: isoTime(clock.now()) });
}
