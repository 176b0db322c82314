import { keySecrets } from '#core/models/providers.ts';
import { LLM_PROVIDERS } from '#core/ports/llm.ts';

/** Patterns of environment variable reads in Python, then in JavaScript and TypeScript. */
const READS: readonly { readonly files: RegExp; readonly reads: RegExp }[] = [
  { files: /\.pyi?$/, reads: /\b(?:environ\s*\[\s*|environ\.get\s*\(\s*|getenv\s*\(\s*)(["'])([A-Za-z_]\w*)\1/g },
  { files: /\.[cm]?[jt]sx?$/, reads: /\bprocess\.env(?:\.|\[\s*(["'`]))([A-Za-z_]\w*)/g },
];
/** Variables that every run has (`docs/interface/sandbox.md#variables`). */
const GIVEN =
  /^(?:PLATFORM_\w+|LLM_PROVIDER|LLM_MODEL|PATH|PYTHONPATH|HOME|USER|LANG|SHELL|TERM|PWD|TMPDIR|PORT|NODE_ENV|\w+_BASE_URL|(?:HTTPS?|NO|ALL)_PROXY|(?:https?|no|all)_proxy)$/;

interface Manifest {
  readonly [member: string]: unknown;
  readonly required_secrets?: unknown;
  readonly optional_secrets?: unknown;
  readonly supported_providers?: unknown;
  readonly loop?: unknown;
  readonly mcp_servers?: unknown;
}

/**
 * Returns variables that the code reads, but the manifest does not declare and runs do not have, with the file of each.
 */
export function undeclaredVariables(
  manifest: Manifest,
  files: ReadonlyMap<string, Uint8Array> = new Map(),
): ReadonlyMap<string, string> {
  const { required_secrets = [], optional_secrets = [], supported_providers = [] } = manifest;
  const ofProviders = LLM_PROVIDERS.filter((provider) => [supported_providers].flat().includes(provider));
  const declared = new Set(
    [required_secrets, optional_secrets, keySecrets(ofProviders), variablesOfServers(manifest)].flat().map(String),
  );
  const found = new Map<string, string>();
  for (const [path, bytes] of files) {
    const reads = READS.find(({ files: names }) => names.test(path))?.reads;
    if (reads === undefined) continue;
    for (const [, , name] of Buffer.from(bytes).toString().matchAll(reads)) {
      if (!declared.has(name!) && !GIVEN.test(name!) && !found.has(name!)) found.set(name!, path);
    }
  }
  return found;
}

/** Returns the variables that the manifest gives its MCP servers. */
function variablesOfServers({ loop, mcp_servers }: Manifest): string[] {
  const servers = (loop as { readonly mcp_servers?: unknown } | undefined)?.mcp_servers ?? mcp_servers;
  return [servers ?? []].flat().flatMap((server) => Object.keys((server as { readonly env?: object })?.env ?? {}));
}
