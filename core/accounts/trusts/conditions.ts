import { PlatformError } from '#core/base/errors.ts';

export const GITHUB_ISSUER = 'https://token.actions.githubusercontent.com';

/** Conditions of a trust: claim -> the exact text, or its beginning and one `*`. */
export type Conditions = Readonly<Record<string, string>>;

/** Members of a request that are claims of GitHub Actions by the same name. */
export const GITHUB_CLAIMS = [
  'repository',
  'repository_id',
  'repository_owner_id',
  'ref',
  'environment',
  'workflow',
] as const;

/** Claims that many repositories share, so that they do not say who publishes. */
const SHARED = [
  'ref',
  'ref_type',
  'ref_protected',
  'environment',
  'workflow',
  'event_name',
  'actor',
  'job_workflow_ref',
];
/** Claims that the platform checks itself. */
const OWN = ['iss', 'aud', 'exp', 'nbf', 'iat', 'jti'];
/** Events in which GitHub runs a workflow for code of people who may not write to the repository. */
const FOREIGN_EVENTS = ['pull_request', 'pull_request_target'];
/** Longest text of a claim that is recorded. */
const MAX_SHOWN = 200;

/** Claims that say which job published, at GitHub and GitLab. */
const SHOWN = [
  'repository',
  'repository_id',
  'ref',
  'sha',
  'event_name',
  'workflow',
  'environment',
  'run_id',
  'project_path',
  'project_id',
  'pipeline_id',
  'job_id',
];

/** Throws INVALID_INPUT for conditions that strangers could meet. */
export function checkConditions(issuer: string, conditions: Conditions): void {
  for (const [claim, text] of Object.entries(conditions)) {
    if (OWN.includes(claim)) throw wrong(claim, 'the platform checks this claim itself: leave it out');
    if (/\*./.test(text)) throw wrong(claim, 'a * may only be the last character');
    if (text === '*') throw wrong(claim, 'a * alone is met by everything: leave the condition out');
  }
  const isOne = (claim: string) => claim in conditions && !conditions[claim]!.includes('*');
  const ofGitHub = ['repository', 'repository_id'];
  if (issuer === GITHUB_ISSUER && !ofGitHub.some(isOne)) {
    throw new PlatformError('INVALID_INPUT', 'body.repository: is missing or ends in *: name one repository.', {
      hint: 'Everybody can get tokens of GitHub. Name the repository as owner/name.',
    });
  }
  if (!Object.keys(conditions).some((claim) => isOne(claim) && !SHARED.includes(claim))) {
    throw new PlatformError(
      'INVALID_INPUT',
      'body.claims: must have an exact text for a claim that only one project has, such as "sub" or "project_path".',
      { hint: 'The issuer may give tokens to others, too.' },
    );
  }
}

const wrong = (claim: string, problem: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `body.claims.${claim.slice(0, 64)}: ${problem}.`);

/**
 * Returns why a token does not meet the conditions, as a sentence without a full stop; `undefined` if it does. The sentence
 * has the text that the owner set, and none of the token.
 */
export function unmet(conditions: Conditions, claims: Readonly<Record<string, unknown>>): string | undefined {
  for (const [claim, wanted] of Object.entries(conditions)) {
    const given = Object.hasOwn(claims, claim) ? textOf(claims[claim]) : undefined;
    const fits = wanted.endsWith('*') ? given?.startsWith(wanted.slice(0, -1)) : given === wanted;
    if (fits !== true) return `its claim "${claim}" is not "${wanted}"`;
  }
  const event = textOf(claims.event_name);
  if (!('event_name' in conditions) && FOREIGN_EVENTS.includes(event ?? '')) {
    return `it is of a ${event}, which the trust does not name in its claim "event_name"`;
  }
  return undefined;
}

/** Issuers send ids as texts or as numbers, and flags as either. */
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? String(value) : undefined;

/** Returns what people see of a token: which job it names. */
export function shownClaims(claims: Readonly<Record<string, unknown>>): Record<string, string> {
  const shown = ['sub', ...SHOWN].map((name) => [name, textOf(claims[name])?.slice(0, MAX_SHOWN).toWellFormed()]);
  return Object.fromEntries(shown.filter(([, text]) => text !== undefined));
}
