/** A file of its own, so that functions have it as a bundle of its own (`scripts/build-functions.ts`). */
export { questionListener } from '#core/collaboration/questions.ts';
