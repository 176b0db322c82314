import { PlatformError } from '#core/base/errors.ts';
import { EGRESS_PORT } from '#core/ports/sandbox.ts';
import { GATEWAY_PORT } from '#core/ports/service-host.ts';

/** Port that the app listens on by default. */
const DEFAULT_APP_PORT = 3000;
/** Variable with which a service sets the port of its app. */
export const PORT_VARIABLE = 'PLATFORM_HTTP_PORT';

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;
/** See `docs/interface/services.md#environment`. */
const SENSITIVE = /secret|token|password|api_key|credential|private_key/i;
const SECRET_NAME = /^[A-Z][A-Z0-9_]{0,127}$/;
const MAX_VARIABLES = 200;
/** Name of the secret that callers of a loop service must send. The loop itself does not receive it. */
export const ACCESS_KEY = 'SERVICE_ACCESS_KEY';
/** Limit for all names and values in total. It keeps the record of a service far below the maximum item size. */
const MAX_BYTES = 64 * 1024;

type Environment = Readonly<Record<string, string>>;

/** Returns whether the platform sets the variable itself. */
const isReserved = (name: string): boolean => name === 'PORT' || (/^PLATFORM_/i.test(name) && name !== PORT_VARIABLE);

/**
 * Throws INVALID_INPUT for plain variables that are not allowed in a service.
 *
 * @param requiredSecrets names of the secrets that the agent requires: a secret overrides a plain variable of the same
 * name, which would be lost silently
 */
export function checkEnvironment(env: Environment, requiredSecrets: readonly string[]): void {
  const names = Object.keys(env);
  for (const name of names) {
    const shown = JSON.stringify(name.slice(0, 128));
    if (!NAME.test(name)) {
      throw refuse(`${shown} must be letters, digits and underscores, not beginning with a digit`);
    }
    if (SENSITIVE.test(name)) {
      throw refuse(
        `${shown} looks like a secret, but plain variables are visible to all members`,
        'Store it with PUT /workspaces/{id}/secrets, and list it in secret_names.',
      );
    }
    if (isReserved(name)) {
      throw refuse(`${shown} is set by the platform`, `To choose the port of the app, set ${PORT_VARIABLE}.`);
    }
    if (requiredSecrets.includes(name)) {
      throw refuse(`${shown} is a secret of the agent, which the app already receives`, 'Leave it out of env.');
    }
    if (env[name]!.includes('\0')) throw refuse(`the value of ${shown} must not have a NUL character`);
  }
  if (names.length > MAX_VARIABLES) throw refuse(`${names.length} variables are more than ${MAX_VARIABLES}`);
  const bytes = Buffer.byteLength(JSON.stringify(env));
  if (bytes > MAX_BYTES) throw refuse(`names and values have ${bytes} bytes together, at most ${MAX_BYTES} may be`);
  checkPort(env[PORT_VARIABLE]);
}

function checkPort(given: string | undefined): void {
  if (given === undefined) return;
  const port = Number(given);
  const isPort = /^\d{1,5}$/.test(given) && port >= 1024 && port <= 65_535;
  if (!isPort) throw refuse(`${PORT_VARIABLE} must be a port from 1024 to 65535`);
  if (port === GATEWAY_PORT) {
    throw refuse(`${PORT_VARIABLE} must not be ${GATEWAY_PORT}, which is the platform's own gateway`);
  }
  // Requests to the app would reach the egress proxy instead.
  if (port === EGRESS_PORT) {
    throw refuse(`${PORT_VARIABLE} must not be ${EGRESS_PORT}, where apps find the proxy that leads out`);
  }
}

/**
 * Returns the names without duplicates. Throws INVALID_INPUT for names that are not allowed as secrets of a service.
 */
export function checkSecretNames(names: readonly string[], env: Environment): string[] {
  for (const name of names) {
    const shown = JSON.stringify(name.slice(0, 128));
    if (!SECRET_NAME.test(name)) {
      throw new PlatformError(
        'INVALID_INPUT',
        `secret_names: ${shown} must be upper-case letters, digits and underscores, beginning with a letter.`,
      );
    }
    if (isReserved(name) || name === PORT_VARIABLE) {
      throw new PlatformError('INVALID_INPUT', `secret_names: ${shown} is set by the platform; leave it out.`);
    }
    if (name in env) {
      throw new PlatformError('INVALID_INPUT', `secret_names: ${shown} is in env, too; remove it from one of them.`);
    }
  }
  return [...new Set(names)];
}

/** Returns the port that the app listens on. */
export const appPort = (env: Environment): number => Number(env[PORT_VARIABLE] ?? DEFAULT_APP_PORT);

/** Returns the variables that identify the service to its own app. */
export const ownVariables = ({ id, name }: { readonly id: string; readonly name: string }): Environment => ({
  PLATFORM_SERVICE_ID: id,
  PLATFORM_SERVICE_NAME: name,
});

/** Returns the plain variables of a service's app, including those of the platform. */
export function appEnvironment(env: Environment, own: Environment): Environment {
  const port = String(appPort(env));
  return { ...env, ...own, PORT: port, [PORT_VARIABLE]: port, PLATFORM_HEALTH_PORT: String(GATEWAY_PORT) };
}

const refuse = (why: string, hint?: string): PlatformError =>
  new PlatformError('INVALID_INPUT', `env: ${why}.`, { ...(hint && { hint }) });
