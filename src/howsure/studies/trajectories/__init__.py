"""Trajectories: turn by turn, how sure were agent and user, and should they have been?"""
