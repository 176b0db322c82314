import { createStaticKey, listStaticKeys, revokeAllStaticKeys } from '#core/accounts/service-keys/store.ts';
import { findMembership } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import { mediaType, readJson } from '#core/http/body.ts';
import { directLimit } from '#core/http/direct-limit.ts';
import { readMultipart } from '#core/http/multipart.ts';
import type { Handlers } from '#core/http/route.ts';
import { isoTime } from '#core/ports/clock.ts';
import type { Deps, InstallJob } from '#core/ports/deps.ts';
import { type AgentAddress, findOwn, maySee } from './access.ts';
import { type BundleReport, inspectBundle } from './bundle/bundle.ts';
import { detectEntrypoint } from './bundle/entrypoint.ts';
import { planInstall } from './bundle/install-plan.ts';
import type { AgentListeners } from './listeners.ts';
import { checkDependencyGraph } from './manifest/dependency-graph.ts';
import type { FieldError } from './manifest/field-error.ts';
import { versionName } from './references.ts';
import type { agentRoutes } from './routes.ts';
import { checkDefaultSkills, withOrg } from './skills/skill-refs.ts';
import { AgentStore, findAnyVersion, resolveAgent } from './store.ts';
import { treeOf } from './tree.ts';
import { readUploads } from './uploads/store.ts';
import { type AgentVersion, type Bundle, bundleKey, type Install } from './version.ts';
import { isPaid, ownerView } from './views.ts';

/** Multipart adds some lines around the file. */
const MULTIPART_OVERHEAD_BYTES = 64 * 1024;
/** Clients give up on an upload after 15 s (`contract.md` 0.2); an installation that takes longer goes on. */
const UPLOAD_WAIT_MS = 10_000;
/** Where another process installs, its record tells. */
const UPLOAD_POLL_MS = 500;
/** With ajv and the shell's grammar, for which the cold start of other requests does not wait. */
const manifest = () => import('./manifest/manifest.ts');
/** `contract.md` 6.5. */
const FORKS_THAT_NEED_CONFIRMATION = 1;

type AgentDeps = Omit<Deps, 'vault' | 'counters'> & { readonly listeners: AgentListeners };

export const agentHandlers = (deps: AgentDeps): Handlers<typeof agentRoutes> => {
  const storeOf = (caller: Caller) => new AgentStore(deps, caller.workspace.id);
  const find = (caller: Caller, id: string) => findOwn(deps, caller, id);

  async function check(caller: Caller, body: unknown) {
    const { checkDefinition } = await manifest();
    const { definition, errors, warnings } = checkDefinition(body);
    if (definition === undefined) return { definition, errors, warnings };
    const self = { org: caller.workspace.slug, name: definition.name };
    const graph = await checkDependencyGraph(definition, self, async (org, name, version) => {
      const found = await resolveAgent(deps, org, name, version);
      // Runs have no user to ask, so a membership of whoever publishes opens nothing.
      const accessible = found?.definition.is_public || found?.workspaceId === caller.workspace.id;
      return found && { definition: found.definition, accessible };
    });
    const skills = await checkDefaultSkills(deps, definition, skillHome(caller));
    return { definition, errors: [...errors, ...graph, ...skills], warnings };
  }

  return {
    async listAgents({ caller, query }) {
      const workspaceId = query.workspace_id ?? caller.workspace.id;
      if (workspaceId !== caller.workspace.id && !(await findMembership(deps, caller.userId, workspaceId))) {
        throw new PlatformError(
          'FORBIDDEN',
          `You are not a member of a workspace with the id "${workspaceId.slice(0, 64)}".`,
        );
      }
      return { status: 200, body: (await new AgentStore(deps, workspaceId).listAll()).map(ownerView) };
    },

    async createAgent({ caller, body }) {
      const { definition, errors, warnings } = await check(caller, body);
      if (definition === undefined || errors.length > 0) throw invalid(errors);
      const runnable = definition.execution_engine !== 'code_runtime';
      const version = await storeOf(caller).publish(definition, caller.workspace, { runnable });
      if (runnable) await deps.listeners.currentVersionChanged(version);
      return {
        status: 201,
        body: {
          agent: ownerView(version),
          ...(await firstServiceKey(version)),
          ...(definition.manifest?.orchestration_mode && {
            orchestration_mode: definition.manifest.orchestration_mode,
          }),
          warnings,
          services_updated: 0,
        },
      };
    },

    async previewAgent({ caller, query }) {
      const store = storeOf(caller);
      const [versions, next] = await Promise.all([store.listVersions(query.name), store.nextVersion(query.name)]);
      return {
        status: 200,
        body: {
          name: query.name,
          existing_versions: versions.map(({ version }) => versionName(version)),
          next_version: versionName(next),
          org_slug: caller.workspace.slug,
        },
      };
    },

    async validateAgent({ caller, body }) {
      const { errors, warnings } = await check(caller, body);
      return { status: 200, body: { valid: errors.length === 0, errors: errors.map(errorText), warnings } };
    },

    async getAgent({ caller, params }) {
      return { status: 200, body: ownerView(await find(caller, params.id)) };
    },

    async updateAgent({ caller, params, body }) {
      const version = await find(caller, params.id);
      const { checkUpdate } = await manifest();
      const { definition, errors } = checkUpdate(version.definition, body);
      if (definition === undefined) throw invalid(errors);
      if (body.default_skills !== undefined) {
        const problems = await checkDefaultSkills(deps, definition, skillHome(caller));
        if (problems.length > 0) throw invalid(problems);
      }
      const updated = await storeOf(caller).update(version, definition);
      return { status: 200, body: ownerView(updated ?? (await find(caller, params.id))) };
    },

    async deleteAgent({ caller, params, query }) {
      const store = storeOf(caller);
      const version = await find(caller, params.id);
      const all = query.mode === 'all_versions';
      if (
        query.confirmation_name !== version.name &&
        (await store.countForks(version.name)) >= FORKS_THAT_NEED_CONFIRMATION
      ) {
        throw new PlatformError(
          'INVALID_INPUT',
          `Others have forked "${version.name}": confirm with confirmation_name=${version.name}.`,
        );
      }
      // Oldest first, so that the newest stays current until it goes itself.
      const versions = all ? await store.listVersions(version.name) : [version];
      for (const each of versions) await store.remove(each);
      if ((await store.listVersions(version.name)).length === 0) {
        await revokeAllStaticKeys(deps, { workspaceId: version.workspaceId, agentName: version.name });
      }
      await deps.listeners.currentVersionChanged(version);
      return {
        status: 200,
        body: {
          deleted: true,
          agent_id: version.id,
          agent_name: version.name,
          ...(all && { version_count: versions.length }),
        },
      };
    },

    async checkAgentDeletion({ caller, params, query }) {
      const store = storeOf(caller);
      const version = await find(caller, params.id);
      const forks = await store.countForks(version.name);
      return {
        status: 200,
        body: {
          agent_id: version.id,
          agent_name: version.name,
          stars_count: 0,
          fork_count: forks,
          requires_confirmation: forks >= FORKS_THAT_NEED_CONFIRMATION,
          ...(query.mode && { version_count: (await store.listVersions(version.name)).length }),
        },
      };
    },

    async uploadBundle({ caller, params, headers, request, requestUuid }) {
      const version = await find(caller, params.id);
      const engine = version.definition.execution_engine;
      if (engine !== 'code_runtime') {
        throw new PlatformError(
          'INVALID_INPUT',
          `Only code_runtime agents have a code bundle, and this one is run by ${engine ?? 'nothing: it is a skill'}.`,
        );
      }
      const report = await inspectBundle(await readBundle(deps, caller.workspace.id, request));
      const { bundle, install: installed } = await build(version, report, headers['x-entrypoint'], requestUuid);
      const status = installed?.status ?? null;
      return {
        status: 200,
        body: {
          success: true,
          code_hash: bundle.sha256,
          bundle_id: bundle.sha256,
          bundle_size_bytes: bundle.size_bytes,
          size_bytes: bundle.size_bytes,
          file_count: report.files.length,
          entrypoint: bundle.entrypoint,
          status: status === 'failed' ? 'error' : status === 'building' ? 'processing' : 'active',
          environment_status: status,
          environment_error: installed?.error ?? null,
          uploaded_at: bundle.uploaded_at,
          services_updated: 0,
        },
      };
    },

    async getAgentTree({ caller, params: { id: org, agent, version } }) {
      const find = async (address: AgentAddress) => {
        const found = await resolveAgent(deps, address.org, address.agent, address.version);
        return found && (await maySee(deps, caller, found)) ? found : undefined;
      };
      const root = await find({ org, agent, version });
      if (root === undefined) {
        throw new PlatformError(
          'NOT_FOUND',
          `You have no access to an agent ${org}/${agent} with a version ${version}.`,
        );
      }
      return { status: 200, body: await treeOf(root, find) };
    },

    async forkAgent({ caller, params, body }) {
      const version = await fork(caller, params.id, body);
      return { status: 200, body: { agent: ownerView(version), ...(await firstServiceKey(version)) } };
    },
  };

  /** An agent that calls others gets a key to call them with from anywhere, unless it has one already. */
  async function firstServiceKey(
    version: AgentVersion,
  ): Promise<{ service_key?: string; service_key_prefix?: string }> {
    const owner = { workspaceId: version.workspaceId, agentName: version.name };
    if (!version.definition.manifest?.dependencies.length || (await listStaticKeys(deps, owner)).length > 0) return {};
    const { key, prefix } = await createStaticKey(deps, owner);
    return { service_key: key, service_key_prefix: prefix };
  }

  /**
   * Stores a bundle and installs its dependencies. Answers once the version can run or has failed, or after ten seconds;
   * `install` is absent when there is nothing to install.
   */
  async function build(
    version: AgentVersion,
    report: BundleReport,
    entrypoint: string | undefined,
    runId: string,
  ): Promise<{ bundle: Bundle; install?: Install }> {
    const isBuilding = version.install?.status === 'building' && version.install.deadline > deps.clock.now();
    checkSameCode(version, report, isBuilding);
    if (isBuilding) return { bundle: version.bundle!, install: version.install };

    const bundle: Bundle = {
      sha256: report.sha256,
      size_bytes: report.bytes.byteLength,
      entrypoint: detectEntrypoint(report, version.definition, entrypoint) ?? null,
      uploaded_at: isoTime(deps.clock.now()),
    };
    await deps.blobs.put(bundleKey(bundle.sha256), report.bytes);
    const plan = await planInstall(deps, version.workspaceId, report, version.definition.environment ?? {});
    const install: Install | undefined = plan && {
      status: (await deps.blobs.size(plan.layer)) === undefined ? 'building' : 'ready',
      layer: plan.layer,
      run_id: runId,
      deadline: deps.clock.now() + deps.config.installTimeoutMs,
    };
    const stored = await storeFor(version).setBuild(version, { bundle, install });
    if (plan === undefined || install?.status === 'ready') {
      await storeFor(version).activate(stored);
      await deps.listeners.currentVersionChanged(version);
      return { bundle, install };
    }
    return { bundle, install: await installOf(stored, { versionId: version.id, runId }) };
  }

  /** Has an installation done, and answers how far it is after ten seconds, or as soon as it has ended. */
  async function installOf(version: AgentVersion, job: InstallJob): Promise<Install> {
    const until = deps.clock.now() + UPLOAD_WAIT_MS;
    await Promise.race([deps.startInstall(job), deps.clock.sleep(UPLOAD_WAIT_MS)]);
    for (;;) {
      const install = (await storeFor(version).find(version.id))?.install ?? version.install!;
      if (install.status !== 'building' || deps.clock.now() >= until) return install;
      await deps.clock.sleep(UPLOAD_POLL_MS);
    }
  }

  /** A version's code does not change: a second upload must bring the same bytes, or replace one that cannot run. */
  function checkSameCode(version: AgentVersion, report: BundleReport, isBuilding: boolean): void {
    if (version.bundle === undefined || version.bundle.sha256 === report.sha256) return;
    const name = `${version.name} ${versionName(version.version)}`;
    if (version.runnable) {
      throw new PlatformError('CONFLICT', `${name} has other code already: publish a new version for this one.`);
    }
    if (isBuilding) {
      throw new PlatformError('CONFLICT', `The dependencies of ${name} are being installed: upload again afterwards.`);
    }
  }

  function storeFor(version: AgentVersion): AgentStore {
    return new AgentStore(deps, version.workspaceId);
  }

  async function fork(
    caller: Caller,
    id: string,
    { workspace_id, new_name }: { workspace_id?: string; new_name?: string },
  ): Promise<AgentVersion> {
    const source = await findForFork(caller, id);
    const target = workspace_id === undefined ? caller : await findMembership(deps, caller.userId, workspace_id);
    if (target === undefined) throw new PlatformError('FORBIDDEN', 'You are not a member of the target workspace.');
    if (target.role !== 'owner') {
      throw new PlatformError(
        'FORBIDDEN',
        `Only an owner of the workspace "${target.workspace.slug}" may publish in it.`,
      );
    }
    const { checkDefinition } = await manifest();
    const { definition: copy, errors } = checkDefinition({
      ...source.definition,
      name: new_name ?? source.name,
      is_public: false,
      default_skills: withOrg(source.definition.default_skills, source.orgSlug),
    });
    if (copy === undefined) throw invalid(errors);
    const version = await new AgentStore(deps, target.workspace.id).publish(copy, target.workspace, {
      runnable: source.runnable,
      bundle: source.bundle,
      install: source.install,
      forkedFrom: source.id,
    });
    if (version.runnable) await deps.listeners.currentVersionChanged(version);
    await storeFor(source).addFork(source.name);
    return version;
  }

  /** Throws NOT_FOUND for what the caller may not see, INVALID_INPUT for what he may see but not copy. */
  async function findForFork(caller: Caller, id: string): Promise<AgentVersion> {
    const source = await findAnyVersion(deps, id);
    if (source === undefined || !(await maySee(deps, caller, source))) {
      throw new PlatformError('NOT_FOUND', `There is no agent version with the id "${id.slice(0, 64)}".`);
    }
    const name = `${source.orgSlug}/${source.name}`;
    if (!source.definition.is_public) {
      throw new PlatformError('INVALID_INPUT', `${name} is not public: only public agents can be forked.`);
    }
    if (!source.definition.allow_local_download || isPaid(source)) {
      throw new PlatformError('INVALID_INPUT', `The source of ${name} is not available, so it cannot be forked.`);
    }
    if (!source.runnable) {
      throw new PlatformError(
        'INVALID_INPUT',
        `${name} ${versionName(source.version)} is not complete yet: its code or dependencies are missing.`,
      );
    }
    return source;
  }
};

const skillHome = ({ workspace }: Caller) => ({ workspaceId: workspace.id, slug: workspace.slug });

const errorText = ({ field, message }: FieldError): string => (field === '' ? message : `${field}: ${message}`);

const invalid = (errors: readonly FieldError[]): PlatformError =>
  new PlatformError('INVALID_INPUT', errors.map(errorText).join('; '));

/** The zip of a multipart body, in the part `file` or `bundle`; refused before it is read when it is too large. */
/** The zip of the body, or the one that was uploaded in `workspaceId` and is named in it. */
async function readBundle(
  deps: Pick<Deps, 'config' | 'blobs' | 'clock'>,
  workspaceId: string,
  request: Request,
): Promise<Uint8Array> {
  const limit = deps.config.maxBundleBytes;
  const type = mediaType(request);
  if (type === 'application/json') {
    const body = (await readJson(request, { bytes: 1024 })) as { readonly upload_id?: unknown } | null | undefined;
    const id = body?.upload_id;
    if (typeof id !== 'string') throw new PlatformError('INVALID_INPUT', 'The body must be {"upload_id": "upl_..."}.');
    const [bundle] = await readUploads(deps, workspaceId, { purpose: 'bundle', ids: [id], limit });
    return bundle!;
  }
  if (type !== 'multipart/form-data') {
    throw new PlatformError(
      'UNSUPPORTED_TYPE',
      'Upload the bundle as multipart/form-data with one part named "file", or name it as JSON: {"upload_id": "upl_..."}.',
    );
  }
  const { files } = await readMultipart(request, directLimit(deps.config, limit + MULTIPART_OVERHEAD_BYTES));
  const bundles = files.filter(({ field }) => field === 'file' || field === 'bundle');
  if (bundles.length !== 1) {
    throw new PlatformError(
      'INVALID_INPUT',
      `The upload needs exactly one part named "file" with the zip; it has ${bundles.length}.`,
    );
  }
  if (bundles[0]!.content.byteLength > limit) {
    throw new PlatformError('DOCUMENT_TOO_LARGE', `The bundle is larger than ${Math.floor(limit / 1024 ** 2)} MB.`);
  }
  return bundles[0]!.content;
}
