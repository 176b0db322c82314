import { HttpOutbound } from '#core/outbound/http-outbound.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { OwnService } from '#core/ports/own-services.ts';
import type { Service } from '#core/services/service.ts';

/** Addresses at which a server also listens on 127.0.0.1. */
const NEAR = /^(127\..*|localhost|0\.0\.0\.0|::)$/;

/**
 * Returns how the platform reaches services: through its own server, without leaving the machine. Apps that check the
 * name of their host expect `localhost`; a server that listens elsewhere takes only the services' own names
 * (`docs/interface/service-instances.md#address`).
 */
export function wayToServices(
  clock: Clock,
  { host, port }: { readonly host: string; readonly port: number },
  domain: string,
) {
  const isNear = NEAR.test(host);
  const resolve = async () => [isNear ? '127.0.0.1' : host];
  return ({ id, label }: Pick<Service, 'id' | 'label'>): OwnService => {
    const name = isNear ? 'localhost' : `${label}.${domain}`;
    return {
      url: `http://${name}:${port}${isNear ? `/services/${id}` : ''}`,
      exchanges: new HttpOutbound({ clock, ownHosts: [name], resolve }),
    };
  };
}
