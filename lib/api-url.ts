import { Aws } from 'aws-cdk-lib';
import type { Stage } from './config.ts';

/** Where clients reach the API of a stage, without a slash at the end: as its file says, else API Gateway's own address. */
export function apiUrlOf({ baseUrl, domain, name }: Stage, apiId: string): string {
  if (baseUrl !== undefined) return baseUrl;
  if (domain !== undefined) return `https://${domain.name}`;
  return `https://${apiId}.execute-api.${Aws.REGION}.${Aws.URL_SUFFIX}/${name}`;
}
