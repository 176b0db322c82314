import { hasCode, PlatformError } from '#core/base/errors.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { BootDocument, ServiceReport } from '#core/ports/service-host.ts';
import { bootDocumentShape } from '#core/services/instances/schema.ts';
import { restartDelay } from './backoff.ts';

/** Longer than the API's own limit of 29 seconds for a response. */
const REQUEST_MS = 35_000;
/** Limits the backoff to eight seconds: an instance without its document serves no requests. */
const MAX_BOOT_DELAYS = 4;

export interface PlatformApiOptions {
  /** Address of the API, without a trailing slash. */
  readonly url: string;
  readonly serviceId: string;
  readonly token: string;
  readonly clock: Clock;
  /** Called when the platform stops responding, and when it responds again. */
  say(message: string): void;
}

/** Client of the platform for an instance on another machine: `core/services/instances/routes.ts`. */
export class PlatformApi {
  readonly #options: PlatformApiOptions;

  constructor(options: PlatformApiOptions) {
    this.#options = options;
  }

  /**
   * Retries until the platform responds. Throws the platform's refusals, UNAUTHORIZED if the token has become invalid,
   * and the signal's reason.
   */
  async boot(signal: AbortSignal): Promise<BootDocument> {
    const { clock, say } = this.#options;
    for (let failures = 0; ; ) {
      try {
        const document = bootDocumentShape.parse(await this.#post('boot', {}, signal));
        if (failures > 0) say('The platform responds again.');
        return document;
      } catch (error) {
        if (!hasCode(error, 'PLATFORM_AWAY')) throw error;
        if (failures === 0) say(`${(error as Error).message} It is asked until it answers.`);
      }
      failures += 1;
      await clock.sleep(restartDelay(Math.min(failures, MAX_BOOT_DELAYS), Math.random()), signal);
    }
  }

  /** Throws UNAUTHORIZED if the token has become invalid. After any other error the reports must be sent again. */
  async report(reports: readonly ServiceReport[]): Promise<void> {
    await this.#post('reports', { reports });
  }

  async #post(name: 'boot' | 'reports', body: object, signal?: AbortSignal): Promise<unknown> {
    const { url, serviceId, token } = this.#options;
    const limit = AbortSignal.timeout(REQUEST_MS);
    let status: number;
    let answer: unknown;
    try {
      const response = await fetch(`${url}/runner/services/${serviceId}/${name}`, {
        method: 'POST',
        redirect: 'error',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      status = response.status;
      answer = await response.json();
    } catch (error) {
      signal?.throwIfAborted();
      const { message } = ((error as Error).cause ?? error) as Error;
      throw new PlatformAwayError(`The platform cannot be reached: ${message}.`);
    }
    if (status === 200) return answer;
    const { code, message, is_retryable: isRetryable } = (answer as { error?: Record<string, unknown> })?.error ?? {};
    if (status === 401 && code === 'UNAUTHORIZED') throw new PlatformError('UNAUTHORIZED', String(message));
    // Other responses may come from a proxy in front of the platform.
    if (status < 500 && isRetryable === false) throw new Error(String(message));
    throw new PlatformAwayError(`The platform responds with status ${status}.`);
  }
}

/** The platform is unreachable or temporarily unavailable. */
class PlatformAwayError extends Error {
  readonly code = 'PLATFORM_AWAY';
}
