import { checkStays } from '#core/accounts/workspaces/moving.ts';
import { membershipOf } from '#core/accounts/workspaces/store.ts';
import type { Caller } from '#core/base/caller.ts';
import { PlatformError } from '#core/base/errors.ts';
import type { Workspace } from '#core/base/workspace.ts';
import { fullNameOf, refOf, versionName } from '#core/manifest/references.ts';
import type { AgentVersion } from '#core/manifest/version.ts';
import { checkDefinition } from '#core/manifest/worker-pool/checks.ts';
import type { Deps } from '#core/ports/deps.ts';
import { maySee } from './access.ts';
import { evalContentsOf, readEvalFiles } from './eval-files.ts';
import { whyNotNamed } from './gates/gate.ts';
import { type PublishDeps, publish } from './publish.ts';
import { readSkillFiles } from './skills/skill-contents.ts';
import { withOrg } from './skills/skill-refs.ts';
import { AgentStore, findAnyVersion } from './store.ts';
import { invalidManifest } from './validate-references.ts';
import { isPaid } from './views.ts';

/**
 * Publishes a private copy of a public version, including its code and dependencies, in a workspace that the caller
 * owns.
 * Throws NOT_FOUND, FORBIDDEN, INVALID_INPUT.
 */
export async function forkAgent(
  deps: PublishDeps & Pick<Deps, 'config'>,
  caller: Caller,
  id: string,
  { workspaceId, newName }: { readonly workspaceId?: string; readonly newName?: string },
): Promise<AgentVersion> {
  const source = await findSource(deps, caller, id);
  const workspace = await findTarget(deps, caller, workspaceId);
  const { definition, errors } = await checkDefinition(deps, workspace, {
    ...source.definition,
    skill_files: await readSkillFiles(deps, source),
    name: newName ?? source.name,
    is_public: false,
    default_skills: withOrg(source.definition.default_skills, source.orgSlug),
  });
  if (definition === undefined) throw invalidManifest(errors);
  const { runnable, bundle, install } = source;
  const files = await readEvalFiles(deps, source);
  // It has passed its gate already: the copy does not wait, and its next version does.
  const state = { runnable, bundle, install, copyOf: source, evals: files && evalContentsOf(files) };
  const version = await publish(deps, workspace, definition, state);
  await new AgentStore(deps, source.workspaceId).addFork(source.name);
  return version;
}

/** Throws NOT_FOUND if the caller may not see the version, INVALID_INPUT if the version cannot be copied. */
async function findSource(deps: PublishDeps, caller: Caller, id: string): Promise<AgentVersion> {
  const source = await findAnyVersion(deps, id);
  if (source === undefined || !(await maySee(deps, caller, source))) {
    throw new PlatformError('NOT_FOUND', `There is no agent version with the id "${id.slice(0, 64)}".`);
  }
  const name = fullNameOf(source);
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
  const why = whyNotNamed(source);
  if (why !== undefined) throw new PlatformError('INVALID_INPUT', `${refOf(source)} ${why.replace(/\.$/, '')}.`);
  return source;
}

/** Returns the workspace of the copy, by default the caller's. Throws FORBIDDEN unless the caller is its owner. */
async function findTarget(deps: PublishDeps, caller: Caller, workspaceId: string | undefined): Promise<Workspace> {
  const target = workspaceId === undefined ? caller : await membershipOf(deps, caller, workspaceId);
  if (target === undefined) throw new PlatformError('FORBIDDEN', 'You are not a member of the target workspace.');
  checkStays(target.workspace, 'change');
  if (target.role !== 'owner') {
    throw new PlatformError(
      'FORBIDDEN',
      `Only an owner of the workspace "${target.workspace.slug}" may publish in it.`,
    );
  }
  return target.workspace;
}
