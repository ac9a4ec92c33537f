/* nothing: does nothing, and does it at once. What its run takes is all somebody else's.
 */
int main(void)
{
	return 0;
}
