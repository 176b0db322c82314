import type * as z from 'zod';
import { fileRulesOf } from '#core/manifest/file-rules.ts';
import { versionName } from '#core/manifest/references.ts';
import { type AgentVersion, type Gate, sunsetOf } from '#core/manifest/version.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { LatestAgent } from './latest.ts';
import type { agentRecord, download, listedAgent, publicAgent, uploadedBundle } from './schema.ts';
import type { StoredBundle } from './upload.ts';

type PublicAgent = z.input<typeof publicAgent>;
type AgentRecord = z.input<typeof agentRecord>;

export const isPaid = ({ definition }: AgentVersion): boolean => (definition.price_per_call_cents ?? 0) > 0;

/** Addresses under `.internal` mean "none" and are hidden (`docs/interface/manifest.md#members`). */
function shownUrl(url: string | null): string | null {
  const host = url !== null && URL.canParse(url) ? new URL(url).hostname : '';
  return host.endsWith('.internal') ? null : url;
}

/**
 * The orchestration section, with custom tools and environment inside it as clients expect
 * (`docs/interface/agents.md#records`).
 */
const manifestView = ({ definition }: AgentVersion) => ({
  ...definition.manifest,
  ...(definition.custom_tools.length > 0 && { custom_tools: definition.custom_tools }),
  ...(definition.environment && { environment: definition.environment }),
});

/**
 * Builds the public view, without prompt, manifest and skill files for server-only and paid agents
 * (`docs/interface/agents.md#records`).
 */
export function publicView(version: AgentVersion): PublicAgent {
  const { definition } = version;
  const sourceAvailable = definition.allow_local_download && !isPaid(version);
  const files = fileRulesOf(definition);
  return {
    id: version.id,
    org_id: version.workspaceId,
    org_name: version.orgName,
    org_slug: version.orgSlug,
    name: version.name,
    version: versionName(version.version),
    type: definition.type,
    run_mode: definition.run_mode,
    execution_engine: definition.execution_engine,
    callable: definition.callable,
    description: definition.description,
    tags: definition.tags,
    supported_providers: definition.supported_providers,
    default_endpoint: definition.default_endpoint,
    timeout_seconds: definition.timeout_seconds,
    retry_on_interruption: definition.retry_on_interruption ?? false,
    durable: definition.durable ?? false,
    ...(definition.reuse && { reuse: definition.reuse }),
    retry: definition.retry ?? null,
    concurrency: definition.concurrency ?? null,
    rate: definition.rate ?? null,
    debounce: definition.debounce ?? null,
    sessions: definition.sessions ?? null,
    ...(definition.workspace && { workspace: true as const }),
    input_schema: definition.input_schema,
    output_schema: definition.output_schema,
    accepts_files: files.accepts,
    accept: [...files.accept],
    max_files: files.max,
    required_secrets: definition.required_secrets,
    optional_secrets: definition.optional_secrets,
    egress: definition.egress ?? [],
    default_skills: definition.default_skills,
    skills_locked: definition.skills_locked,
    allow_local_download: definition.allow_local_download,
    source_url: definition.source_url,
    run_command: definition.run_command,
    url: shownUrl(definition.url),
    sdk_compatible: definition.sdk_compatible,
    ...(sourceAvailable && {
      manifest: manifestView(version),
      prompt: definition.prompt,
      skill_files: definition.skill_files,
    }),
    created_at: version.createdAt,
    stars_count: 0,
    pricing_mode: isPaid(version) ? 'per_call' : 'free',
    price_per_call_cents: definition.price_per_call_cents,
  };
}

const gateView = ({ status, evalId, verdict, reason, since, decidedAt, decidedBy }: Gate) => ({
  ...{ status, eval_id: evalId, verdict, reason, since, decided_at: decidedAt, decided_by: decidedBy },
});

export function ownerView(version: AgentVersion): AgentRecord {
  const { definition } = version;
  return {
    ...publicView(version),
    manifest: manifestView(version),
    prompt: definition.prompt,
    skill_files: definition.skill_files,
    updated_at: version.updatedAt,
    is_public: definition.is_public,
    runtime: definition.runtime,
    loop: definition.loop && { ...definition.loop, custom_tools: definition.custom_tools },
    default_models: definition.default_models,
    model_settings: definition.model_settings ? { ...definition.model_settings } : null,
    model_tasks: definition.model_tasks,
    environment: definition.environment,
    ...(definition.build && { build: definition.build }),
    evals: definition.evals ?? null,
    pip_package: definition.pip_package,
    entrypoint: version.bundle?.entrypoint ?? definition.entrypoint,
    code_bundle_url: version.bundle ? `/agents/${version.id}/bundle` : null,
    runnable: version.runnable,
    environment_status: version.install?.status ?? null,
    environment_error: version.install?.error ?? null,
    forked_from: version.forkedFrom ?? null,
    gate: version.gate ? gateView(version.gate) : null,
    preview: version.preview ? { name: version.preview.name, ends_at: version.preview.endsAt } : null,
  };
}

/** Builds the view of a version in the list of an agent's versions; `current` is the version that `latest` calls. */
export const versionView = (version: AgentVersion, current: string | undefined): z.input<typeof listedAgent> => {
  const sunset = sunsetOf(version);
  return { ...ownerView(version), current_version: current ?? null, sunset_at: sunset ? isoTime(sunset) : null };
};

/** Builds the view for members of the agent's workspace, who may not see the ids of other workspaces' runs. */
export const latestView = ({
  version,
  versions,
  current,
  lastRun,
  nextCursor,
}: LatestAgent): z.input<typeof listedAgent> => ({
  ...ownerView(version),
  versions,
  current_version: current === undefined ? null : versionName(current),
  last_run: lastRun
    ? {
        run_id: lastRun.workspaceId === version.workspaceId ? lastRun.id : null,
        status: lastRun.status,
        started_at: lastRun.startedAt,
      }
    : null,
  next_cursor: nextCursor,
});

export function downloadView(version: AgentVersion): z.input<typeof download> {
  const { definition } = version;
  const view = ownerView(version);
  return {
    ...view,
    prompt: definition.prompt,
    dependencies: definition.manifest?.dependencies ?? [],
    has_bundle: version.bundle !== undefined,
    files: definition.skill_files.map(({ path, content, encoding }) => ({
      path,
      ...(content !== undefined && { content }),
      ...(encoding && { encoding }),
    })),
    manifest: manifestView(version),
  };
}

export const uploadView = ({
  contents,
  bundle,
  install,
  servicesUpdated,
}: StoredBundle): z.input<typeof uploadedBundle> => ({
  success: true,
  code_hash: bundle.sha256,
  bundle_id: bundle.sha256,
  bundle_size_bytes: bundle.sizeBytes,
  size_bytes: bundle.sizeBytes,
  file_count: contents.fileCount,
  entrypoint: bundle.entrypoint,
  status: install?.status === 'failed' ? 'error' : install?.status === 'building' ? 'processing' : 'active',
  environment_status: install?.status ?? null,
  environment_error: install?.error ?? null,
  warnings: [...contents.warnings],
  uploaded_at: bundle.uploadedAt,
  services_updated: servicesUpdated,
});
