import { Aws } from 'aws-cdk-lib';
import type { Stage } from './config.ts';

/**
 * Where programs reach the API of a stage, without a slash at the end: as its file says, else API Gateway's own address. CloudFront, to
 * which a proxy leads then, cuts what is silent for a minute, as a long call may be.
 */
export function apiUrlOf({ baseUrl, domain, name, web }: Stage, apiId: string): string {
  if (baseUrl !== undefined && web.kind === 'off') return baseUrl;
  if (domain !== undefined) return `https://${domain.name}`;
  return `https://${apiId}.execute-api.${Aws.REGION}.${Aws.URL_SUFFIX}/${name}`;
}
