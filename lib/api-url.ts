import { Aws } from 'aws-cdk-lib';
import type { Stage } from './config.ts';

/**
 * Returns the API address of a stage for programs, without a trailing slash: as configured in its file, else API
 * Gateway's own address. CloudFront, where a proxy would point instead, closes connections that are idle for a minute,
 * as a long call may be.
 */
export function apiUrlOf({ baseUrl, domain, name, web }: Stage, apiId: string): string {
  if (baseUrl !== undefined && web.kind === 'off') return baseUrl;
  if (domain !== undefined) return `https://${domain.name}`;
  return `https://${apiId}.execute-api.${Aws.REGION}.${Aws.URL_SUFFIX}/${name}`;
}
