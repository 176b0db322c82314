import { checkMayPublish } from '#core/accounts/keys/limits.ts';
import { createStaticKey, listStaticKeys } from '#core/accounts/service-keys/store.ts';
import { membershipOf } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { hasCode, PlatformError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Workspace } from '#core/base/workspace.ts';
import type { Handlers } from '#core/http/route.ts';
import type { AgentDefinition } from '#core/manifest/definition.ts';
import { needsBundle } from '#core/manifest/engines.ts';
import type { SuiteFiles } from '#core/manifest/evals/suite.ts';
import { type AgentAddress, refOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion, Publisher } from '#core/manifest/version.ts';
import type { Deps } from '#core/ports/deps.ts';
import { findOwn, findOwnOrDev, maySee } from './access.ts';
import { deleteAgent, needsConfirmation } from './deletion.ts';
import { keepDev, publishDev } from './dev/publish.ts';
import { evalContentsOf } from './eval-files.ts';
import { type LastRunOf, listLatest } from './latest.ts';
import type { AgentListeners } from './listeners.ts';
import { checkPreviewName } from './previews/preview.ts';
import { publish } from './publish.ts';
import { changeDefinition } from './retention/change-definition.ts';
import type { agentRoutes } from './routes.ts';
import { withContents } from './skills/skill-contents.ts';
import { withUploadedFiles } from './skills/uploaded-files.ts';
import { AgentStore, currentVersions, resolveAgent } from './store.ts';
import { treeOf } from './tree.ts';
import { isUnchanged } from './unchanged.ts';
import { changedDefinition, checkManifest, errorText, invalidManifest } from './validate-references.ts';
import { latestView, ownerView, uploadView, versionView } from './views.ts';

// Loaded lazily: most requests read, and smaller functions start faster.
const uploads = lazy(() => import('./upload.ts'));
const forks = lazy(() => import('./fork.ts'));
const overrides = lazy(() => import('./gates/override.ts'));
const suites = lazy(() => import('./gates/published-suites.ts'));
const keeping = lazy(() => import('./previews/keep.ts'));

type AgentDeps = Omit<Deps, 'vault'> & { readonly listeners: AgentListeners; readonly lastRunOf: LastRunOf };

export const agentHandlers = (deps: AgentDeps): Handlers<typeof agentRoutes> => ({
  async listAgents({ caller, query }) {
    const workspaceId = await ownWorkspace(deps, caller, query.workspace_id);
    const { name, latest = false, limit, cursor } = query;
    if (latest) {
      if (name !== undefined)
        throw new PlatformError('INVALID_INPUT', 'query.name: cannot be combined with latest=true.');
      const page = await listLatest(deps, workspaceId, { limit, cursor });
      return { status: 200, body: page.map(latestView) };
    }
    if (limit !== undefined || cursor !== undefined) {
      const given = limit === undefined ? 'cursor' : 'limit';
      throw new PlatformError(
        'INVALID_INPUT',
        `query.${given}: requires latest=true; without it the list has no pages.`,
      );
    }
    if (name !== undefined) {
      const [versions, current] = await Promise.all([
        new AgentStore(deps, workspaceId).listVersions(name),
        currentVersions(deps, workspaceId, [name]),
      ]);
      return { status: 200, body: versions.map((each) => versionView(each, current.get(name))) };
    }
    return { status: 200, body: (await new AgentStore(deps, workspaceId).listAll()).map(ownerView) };
  },

  async createAgent({ caller, query, body }) {
    const { eval_files: given, ...manifest } = await withUploadedFiles(deps, caller.workspace.id, body);
    const { definition, errors, warnings } = await checkManifest(deps, caller.workspace, manifest);
    if (definition === undefined || errors.length > 0) throw invalidManifest(errors);
    const { preview } = query;
    checkMayPublish(caller, definition.name, preview !== undefined);
    if (preview !== undefined) checkPreviewName(preview);
    if (query.dev && preview !== undefined) {
      throw new PlatformError('INVALID_INPUT', 'query.preview: cannot be combined with dev=true.');
    }
    if (query.dev && caller.trust) {
      throw new PlatformError('FORBIDDEN', 'query.dev: the version "dev" belongs to a user, and a trust is none.');
    }
    const userId = query.dev ? caller.userId : undefined;
    // A preview needs no suites. If it has some, they are stored, so that it can be evaluated.
    const files =
      userId === undefined
        ? await checkedSuites(deps, caller.workspace, withGate(definition, preview), given)
        : undefined;
    const evals = files && evalContentsOf(files);
    const mode = definition.manifest?.orchestration_mode;
    const answer = { ...(mode && { orchestration_mode: mode }), warnings };
    if (query.unless_unchanged) {
      const agents = new AgentStore(deps, caller.workspace.id);
      const { name } = definition;
      const newest = await (userId !== undefined
        ? agents.findDev(name, userId)
        : preview === undefined
          ? agents.findNewest(name)
          : agents.findPreview(name, preview));
      const hashes = { bundle: query.bundle_sha256, evals: evals?.sha256 };
      if (newest !== undefined && isUnchanged(newest, definition, hashes)) {
        if (userId !== undefined) await keepDev(deps, { ...newest, devOf: userId });
        if (preview !== undefined) await (await keeping()).keepPreview(deps, newest);
        return {
          status: 200,
          body: { agent: ownerView(newest), ...answer, services_updated: 0, unchanged: true },
        };
      }
    }
    if (userId !== undefined) {
      const build = await publishDev(deps, { workspace: caller.workspace, userId }, definition);
      return { status: 201, body: { agent: ownerView(build), ...answer, services_updated: 0, unchanged: false } };
    }
    const runnable = !needsBundle(definition);
    const gatedFor = withGate(definition, preview).evals?.gate ? publisherOf(caller) : undefined;
    const version = await publish(deps, caller.workspace, definition, { runnable, evals, gatedFor, preview });
    return {
      status: 201,
      body: {
        agent: ownerView(version),
        // Such a key lasts, so neither a job whose own key ends after ten minutes nor a version that ends must get one.
        ...(caller.limits?.scope !== 'publish' && preview === undefined && (await firstServiceKey(deps, version))),
        ...answer,
        services_updated: version.servicesUpdated,
        unchanged: false,
      },
    };
  },

  async previewAgent({ caller, query }) {
    const store = new AgentStore(deps, caller.workspace.id);
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
    const { eval_files: given, ...manifest } = await withUploadedFiles(deps, caller.workspace.id, body);
    const { definition, errors, warnings } = await checkManifest(deps, caller.workspace, manifest);
    const texts = errors.map(errorText);
    if (definition !== undefined) {
      await checkedSuites(deps, caller.workspace, definition, given).catch((error: unknown) => {
        if (!hasCode(error, 'INVALID_INPUT')) throw error;
        texts.push((error as Error).message);
      });
    }
    return { status: 200, body: { valid: texts.length === 0, errors: texts, warnings } };
  },

  async getAgent({ caller, params }) {
    const version = await withContents(deps, await findOwnOrDev(deps, caller, params.id));
    return {
      status: 200,
      bodyOf: version,
      get body() {
        return ownerView(version);
      },
    };
  },

  async updateAgent({ caller, params, body }) {
    const version = await findOwn(deps, caller, params.id);
    if (version.preview !== undefined && body.is_public === true) {
      throw new PlatformError('CONFLICT', `body.is_public: ${refOf(version)} is a preview, which is never public.`, {
        hint: 'Publish it without "preview".',
      });
    }
    const definition = await changedDefinition(deps, caller.workspace, version.definition, body);
    const updated = await changeDefinition(deps, version, definition);
    return { status: 200, body: ownerView(updated ?? (await findOwn(deps, caller, params.id))) };
  },

  async deleteAgent({ caller, params, query: { mode, confirmation_name } }) {
    const version = await findOwnOrDev(deps, caller, params.id);
    const count = await deleteAgent(deps, version, { mode, confirmedName: confirmation_name });
    return {
      status: 200,
      body: {
        deleted: true,
        agent_id: version.id,
        agent_name: version.name,
        ...(mode && { version_count: count }),
      },
    };
  },

  async checkAgentDeletion({ caller, params, query }) {
    const store = new AgentStore(deps, caller.workspace.id);
    const { id, name } = await findOwn(deps, caller, params.id);
    const forks = await store.countForks(name);
    return {
      status: 200,
      body: {
        agent_id: id,
        agent_name: name,
        stars_count: 0,
        fork_count: forks,
        requires_confirmation: needsConfirmation(forks),
        ...(query.mode && { version_count: (await store.listVersions(name)).length }),
      },
    };
  },

  async uploadBundle({ caller, params, headers, request, requestUuid }) {
    const { checkTakesBundle, readBundle, storeBundle } = await uploads();
    const version = await findOwnOrDev(deps, caller, params.id);
    checkMayPublish(caller, version.name, version.preview !== undefined);
    checkTakesBundle(version);
    const zip = await readBundle(deps, caller.workspace.id, request);
    const settings = { entrypoint: headers['x-entrypoint'], runId: requestUuid };
    return { status: 200, body: uploadView(await storeBundle(deps, caller.workspace, version, zip, settings)) };
  },

  async overrideGate({ caller, params, body }) {
    const { overrideGate } = await overrides();
    return { status: 200, body: ownerView(await overrideGate(deps, caller, params.id, body.reason)) };
  },

  async getAgentTree({ caller, params: { id: org, agent, version } }) {
    const find = async (address: AgentAddress) => {
      const found = await resolveAgent(deps, address.org, address.agent, address.version);
      return found && (await maySee(deps, caller, found)) ? found : undefined;
    };
    const root = await find({ org, agent, version });
    if (root === undefined) {
      throw new PlatformError('NOT_FOUND', `You have no access to an agent ${org}/${agent} with a version ${version}.`);
    }
    return { status: 200, body: await treeOf(root, find) };
  },

  async forkAgent({ caller, params, body }) {
    const target = { workspaceId: body.workspace_id, newName: body.new_name };
    const { forkAgent } = await forks();
    const version = await forkAgent(deps, caller, params.id, target);
    return { status: 200, body: { agent: ownerView(version), ...(await firstServiceKey(deps, version)) } };
  },
});

/** Returns the suites of a new version as `checkEvalFiles` does. */
async function checkedSuites(
  deps: AgentDeps,
  workspace: Workspace,
  definition: AgentDefinition,
  given: unknown,
): Promise<SuiteFiles | undefined> {
  if (given == null && definition.evals?.gate !== true) return undefined;
  return (await suites()).checkEvalFiles(deps, workspace, definition, given);
}

/** Whom the evaluation of a version acts for. A job of a trust has no connections of a user. */
const publisherOf = ({ userId, limits }: Caller): Publisher => ({ userId, isBound: limits?.workspaceId !== undefined });

/** A preview never becomes latest, so it has no gate. */
const withGate = (definition: AgentDefinition, preview: string | undefined): AgentDefinition =>
  preview === undefined ? definition : { ...definition, evals: undefined };

/** Returns the id of the named workspace, by default the caller's. Throws FORBIDDEN unless the caller is a member. */
async function ownWorkspace(deps: AgentDeps, caller: Caller, named = caller.workspace.id): Promise<string> {
  if (named === caller.workspace.id || (await membershipOf(deps, caller, named))) return named;
  throw new PlatformError('FORBIDDEN', `You are not a member of a workspace with the id "${named.slice(0, 64)}".`);
}

/**
 * Creates a key for an agent that calls others, to make those calls from outside the platform, unless it has a key
 * already.
 */
async function firstServiceKey(
  deps: AgentDeps,
  version: AgentVersion,
): Promise<{ service_key?: string; service_key_prefix?: string }> {
  const owner = { workspaceId: version.workspaceId, agentName: version.name };
  if (!version.definition.manifest?.dependencies.length || (await listStaticKeys(deps, owner)).length > 0) return {};
  const { key, prefix } = await createStaticKey(deps, owner);
  return { service_key: key, service_key_prefix: prefix };
}
