import type { WholeSkillFile } from './definition.ts';

/** Returns the bytes that the content of a skill's file stands for. Not for browsers. */
export const skillFileBytes = ({ content, encoding }: Pick<WholeSkillFile, 'content' | 'encoding'>): Buffer =>
  Buffer.from(content, encoding ?? 'utf8');
