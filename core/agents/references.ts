import type { AgentVersion } from './version.ts';

export const versionName = (version: number): string => `v${version}`;

export const refOf = ({ orgSlug, name, version }: AgentVersion): string => `${orgSlug}/${name}@${versionName(version)}`;
